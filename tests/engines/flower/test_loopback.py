"""All sites in one process, through Flower's encoding: the same bytes, the same losses, nothing carried otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tiers import tiered

pytest.importorskip("flwr", reason="Flower is not installed")

from flwr.app import ConfigRecord, Context, Message, RecordDict

import fedgeom
from fedgeom import registry
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.engines.flower import patches
from fedgeom.engines.flower.apps import FAILED
from fedgeom.engines.flower.engine import RECORD
from fedgeom.engines.flower.loopback import FlowerLoopbackEngine, LoopbackGrid
from fedgeom.engines.run import ENGINES
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Event, Lost
from fedgeom.federation.messages import pack
from fedgeom.methods.catalogue import METHODS
from fedgeom.protocols.join.messages import Hello
from fedgeom.registry import Registry
from fedgeom.testing import check_method, example_sites
from tests.deploy.making import small

ENGINE = "flower-loopback"
RUN = bytes(range(32))


# --- the engine ---


@pytest.mark.parametrize("name", tiered(METHODS, "hulls", "ridge", "fedavg"))
def test_the_same_seed_gives_what_the_embedded_engine_gives_byte_for_byte(name: str, tmp_path: Path) -> None:
    """The joint model, and all that the sites themselves have, in memory and in files."""
    method, sites = small(name), example_sites()
    one = fedgeom.run(method, sites, 5, record=tmp_path / "embedded")
    other = fedgeom.run(method, sites, 5, engine=ENGINE, record=tmp_path / "loopback")
    assert other.model.to_bytes() == one.model.to_bytes()
    assert list(other.local) == list(one.local)
    files = {file.name: file.read_bytes() for file in (tmp_path / "embedded" / "sites").iterdir()}
    assert files
    assert files == {file.name: file.read_bytes() for file in (tmp_path / "loopback" / "sites").iterdir()}
    assert [(e.step, e.site, e.kind, e.reveals) for e in other.ledger] == [
        (e.step, e.site, e.kind, e.reveals) for e in one.ledger
    ]


class ForgetfulGrid(LoopbackGrid):
    """Loses every context."""

    def _keep(self, node: int, context: Context) -> None: ...


def test_what_a_site_remembers_comes_from_the_encoded_context_and_from_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedgeom.engines.flower.loopback.LoopbackGrid", ForgetfulGrid)
    with pytest.raises(fedgeom.TooFewSitesError):
        fedgeom.run(fedgeom.Moments(), example_sites(), engine=ENGINE)


def engine(**options: Any) -> FlowerLoopbackEngine:
    return FlowerLoopbackEngine(fedgeom.Moments(), example_sites(), **options)


NAMES = tuple(site.name for site in example_sites())


def hello() -> bytes:
    return pack(RUN, "moments", Hello(rounds=1, terms=fedgeom.Moments().terms(), participants=NAMES))


def test_who_is_interfered_with_is_lost_with_the_reason_and_not_asked() -> None:
    there = engine(interfere=lambda site, request: "killed" if site == "site-2" else None)
    found = dict(there.deliver(dict.fromkeys(there.names, hello())))
    assert found.pop("site-2") == Lost("killed")
    assert set(found) == {"site-1", "site-3", "site-4"}
    assert all(isinstance(reply, bytes) for reply in found.values())
    assert set(there.memories) == set(found)


def test_a_message_that_cannot_be_read_is_a_loss_and_is_not_remembered() -> None:
    there = engine()
    ((name, lost),) = there.deliver({"site-1": b"nonsense"})
    assert name == "site-1"
    assert isinstance(lost, Lost)
    assert "not a fedgeom frame" in lost.reason
    assert not there.memories


def test_what_goes_wrong_at_a_site_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("could not convert string to float: 'Mueller'")

    there = engine()
    monkeypatch.setattr(there.runners["site-1"], "answer", fail)
    ((_, lost),) = there.deliver({"site-1": hello()})
    assert lost == Lost(f"the site could not answer: {FAILED}")


class DiedError(BaseException):
    """Stands for the death of the process."""


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_run_that_died_goes_on_and_ends_in_the_undisturbed_model(step: int, tmp_path: Path) -> None:
    """When it dies after the first answer to a question, the others have answered too: nobody knows it."""

    def die(event: Event) -> None:
        if (event.step, event.state) == (step, "answered"):
            raise DiedError

    method, sites = fedgeom.Moments(), example_sites()
    with pytest.raises(DiedError):
        fedgeom.run(method, sites, engine=ENGINE, record=tmp_path / "run", resumable=True, watch=die)
    with pytest.raises(InputError, match=f"engine = '{ENGINE}'"):
        fedgeom.run(method, sites, record=tmp_path / "run", resume=True)
    resumed = fedgeom.run(method, sites, engine=ENGINE, record=tmp_path / "run", resume=True)
    assert not resumed.lost
    assert resumed.model.to_bytes() == fedgeom.run(method, sites).model.to_bytes()


def test_a_flower_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "act_as_task", lambda: False)
    with pytest.raises(InputError, match="does not fit the Flower that is installed"):
        fedgeom.run(fedgeom.Moments(), example_sites(), engine=ENGINE)


def test_check_method_compares_the_bytes_on_both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_last(
        self: EmbeddedEngine, requests: Mapping[str, bytes]
    ) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in EmbeddedEngine.deliver(self, requests):
            yield name, Lost("never came") if name == "site-4" else reply

    monkeypatch.setattr(FlowerLoopbackEngine, "deliver", without_the_last)
    with pytest.raises(AssertionError, match=f"on: {ENGINE}"):
        check_method(fedgeom.Moments)


def test_large_arrays_pass_whole() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    sites = [SiteData(f"s{k}", 0.01 * (rng.normal(size=(60, 120)) + y[:, None]), y) for k in range(3)]
    one, other = (fedgeom.run(fedgeom.Moments(), sites, engine=name) for name in ("embedded", ENGINE))
    assert one.model.to_bytes() == other.model.to_bytes()
    assert max(entry.bytes for entry in other.ledger) > 100_000


# --- the grid ---


class EchoApp:
    """Answers with what it was sent, and counts in its context how often it was asked."""

    seen: list[tuple[Message, Context]] = []

    def __call__(self, message: Message, context: Context) -> Message:
        self.seen.append((message, context))
        records = context.state.config_records
        count = int(str(records[RECORD]["count"])) if RECORD in records else 0
        context.state[RECORD] = ConfigRecord({"count": count + 1})
        content = ConfigRecord({"count": count + 1, "place": str(context.node_config["site"])})
        return Message(RecordDict({RECORD: content}), reply_to=message)


@pytest.mark.usefixtures("inside_a_task")
def test_apps_get_copies_and_replies_belong_to_their_messages() -> None:
    EchoApp.seen.clear()
    grid = LoopbackGrid(EchoApp, {1: "anna", 2: "bert"})
    sent = [Message(RecordDict({RECORD: ConfigRecord({"b": bytes([n])})}), n, "query.x") for n in (1, 2, 1)]
    numbers = grid.push_messages(sent)
    assert len(set(numbers)) == 3
    assert all(arrived is not message for (arrived, _), message in zip(EchoApp.seen, sent, strict=True))
    assert [arrived.content.config_records[RECORD]["b"] for arrived, _ in EchoApp.seen] == [b"\1", b"\2", b"\1"]
    replies = {reply.metadata.reply_to_message_id: reply for reply in grid.pull_messages(numbers)}
    assert [dict(replies[number].content.config_records[RECORD]) for number in numbers] == [
        {"count": 1, "place": "anna"},
        {"count": 1, "place": "bert"},
        {"count": 2, "place": "anna"},
    ]
    assert grid.pull_messages(numbers) == []
    assert {type(context) for context in grid.contexts.values()} == {bytes}


def test_nodes_are_always_there_with_their_keys() -> None:
    nodes = LoopbackGrid(EchoApp, {1: "anna", 2: "bert"}, {2: b"key"}).get_nodes()  # type: ignore[arg-type]
    assert [(node.node_id, node.public_key, node.status) for node in nodes] == [
        (1, b"", "online"),
        (2, b"key", "online"),
    ]


# --- how it is found ---


def test_it_is_listed_where_flower_is_installed_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(ENGINES)[:2] == ["embedded", ENGINE]
    assert ENGINES[ENGINE] is FlowerLoopbackEngine
    there = Registry("engine", "fedgeom.engines")
    there.offer(ENGINE, "fedgeom.engines.flower.loopback:FlowerLoopbackEngine", needs="flwr")
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert ENGINE not in there
    assert ENGINE not in list(there)
    with pytest.raises(InputError, match=r"the engine 'flower-loopback' needs 'flwr', which is not installed"):
        there.find(ENGINE)


def test_a_name_that_is_offered_is_taken() -> None:
    there = Registry("engine", "fedgeom.engines")
    there.offer(ENGINE, "fedgeom.engines.flower.loopback:FlowerLoopbackEngine", needs="flwr")
    with pytest.raises(InputError, match="already"):
        there.add(ENGINE, EmbeddedEngine)
    there.add(ENGINE, FlowerLoopbackEngine)
    assert list(there) == [ENGINE]


def test_flower_is_not_imported_before_it_carries_something() -> None:
    code = (
        "import sys, fedgeom\n"
        "from fedgeom.engines.run import ENGINES\n"
        "from fedgeom.testing import example_sites\n"
        "fedgeom.run(fedgeom.Moments(), example_sites())\n"
        "assert list(ENGINES)[1] == 'flower-loopback' and ENGINES['flower-loopback']\n"
        "print('flwr' in sys.modules)\n"
        "fedgeom.run(fedgeom.Moments(), example_sites(), engine='flower-loopback')\n"
        "print('flwr' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]

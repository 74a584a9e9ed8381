"""Every engine keeps one contract: the embedded one, Flower's and NATS's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import DecodeError, InputError
from fedgeom.federation.coordinator import Engine, Lost
from fedgeom.testing import check_engine, example_sites
from fedgeom.testing.engine import CHECKS, SiteAnswer
from tests.engines.flower.conftest import AppGrid, inside_a_task  # noqa: F401

IN_TURN = {
    "a_slow_site_keeps_nobody_waiting": "sites in one process are asked one after another",
    "errors_keep_their_words": "in one process an error that nobody expected is the method's fault, and is raised",
}


class Runner:
    """Stands for what runs a site's method."""

    by_reference = False

    def __init__(self, name: str, answer: SiteAnswer):
        self._name = name
        self._answer = answer

    def answer(self, request: bytes, memory: bytes | None) -> tuple[bytes, bytes]:
        return self._answer(self._name, request), b""


@contextmanager
def embedded(names: Sequence[str], answer: SiteAnswer) -> Iterator[Engine]:
    sites = [fedgeom.SiteData(name, one.X, one.y) for name, one in zip(names, example_sites(), strict=False)]
    engine = EmbeddedEngine(fedgeom.Moments(), sites)
    engine.runners = {name: Runner(name, answer) for name in names}  # type: ignore[misc]
    yield engine


def test_the_embedded_engine() -> None:
    done = check_engine(embedded, skip=IN_TURN)
    assert set(done) == {check.__name__ for check in CHECKS} - set(IN_TURN)
    assert min(done.values()) > 0


@pytest.mark.usefixtures("inside_a_task")
def test_flowers_engine_over_its_messages() -> None:
    pytest.importorskip("flwr", reason="Flower is not installed")
    from fedgeom.engines.flower import FlowerEngine, make_client_app

    def introduce(place: str, number: bytes) -> tuple[str, bytes]:
        raise AssertionError("nobody asks for names here")

    @contextmanager
    def flower(names: Sequence[str], answer: SiteAnswer) -> Iterator[Engine]:
        nodes = {name: number for number, name in enumerate(names, start=1)}
        grid = AppGrid(make_client_app(answer, introduce), {number: name for name, number in nodes.items()})
        yield FlowerEngine(grid, names, lambda: nodes, deadline=600.0, poll=0.0)

    done = check_engine(flower, skip={"a_slow_site_keeps_nobody_waiting": "this grid asks one after another"})
    assert len(done) == len(CHECKS) - 1


def test_nats_with_a_real_server(tmp_path: Path) -> None:
    pytest.importorskip("nats", reason="NATS is not installed")
    pytest.importorskip("nkeys", reason="NATS is not installed")
    from tests.engines.nats.carrying import nats_engine

    @contextmanager
    def nats(names: Sequence[str], answer: SiteAnswer) -> Iterator[Engine]:
        with nats_engine(tmp_path, names, answer, deadline=600.0, grace=60.0) as (engine, _):
            yield engine

    assert len(check_engine(nats)) == len(CHECKS)


class BrokenEngine:
    """An engine that carries everything, but for one thing."""

    def __init__(self, names: Sequence[str], answer: SiteAnswer, fault: str):
        self.names = tuple(names[::-1] if fault == "names" else names)
        self._answer = answer
        self._fault = fault
        self._memory: dict[tuple[str, bytes], Any] = {}
        self._late: dict[str, bytes | Lost] = {}

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        asked = dict(requests)
        if self._fault == "asks all" and requests:
            asked = dict.fromkeys(self.names, next(iter(requests.values()))) | asked
        order = list(asked)
        if self._fault != "in turn":
            order.sort(key=lambda name: asked[name] == b"sleep:" + name.encode())
        for k, name in enumerate(order):
            other = order[1] if self._fault == "swaps" and k == 0 and len(order) > 1 else name
            outcome = self._late.pop(name, None) or self._one(other, asked[other])
            if self._fault == "cut" and isinstance(outcome, bytes):
                outcome = outcome[: 2**20]
            if name in requests and not (self._fault == "forgets" and k == 2):
                try:
                    yield name, outcome
                except GeneratorExit:
                    if self._fault == "stale":
                        self._late = {left: self._one(left, asked[left]) for left in order[k + 1 :]}
                    raise

    def _one(self, name: str, request: bytes) -> bytes | Lost:
        if self._fault == "remembers" and (name, request) in self._memory:
            return self._memory[name, request]
        try:
            outcome: bytes | Lost = self._answer(name, request)
        except DecodeError as error:
            outcome = Lost("" if self._fault == "no reason" else str(error))
        except ValueError as error:
            outcome = Lost(str(error) if self._fault == "tells" else "it failed")
        self._memory[name, request] = outcome
        return outcome


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("names", "names_are_those_of_the_sites"),
        ("asks all", "names_are_those_of_the_sites"),
        ("cut", "bytes_arrive_as_they_were_sent"),
        ("swaps", "bytes_arrive_as_they_were_sent"),
        ("forgets", "bytes_arrive_as_they_were_sent"),
        ("remembers", "a_question_that_is_put_again_is_answered_again"),
        ("no reason", "who_refuses_is_lost_alone"),
        ("tells", "errors_keep_their_words"),
        ("in turn", "a_slow_site_keeps_nobody_waiting"),
        ("stale", "what_nobody_waits_for_disturbs_nobody"),
    ],
)
def test_what_an_engine_does_wrong_is_named(fault: str, law: str) -> None:
    @contextmanager
    def broken(names: Sequence[str], answer: SiteAnswer) -> Iterator[Engine]:
        yield BrokenEngine(names, answer, fault)  # type: ignore[misc]

    with pytest.raises(AssertionError) as caught:
        check_engine(broken)
    assert caught.value.__notes__[0].startswith(law)


def test_checks_that_there_are_not_cannot_be_skipped() -> None:
    with pytest.raises(InputError, match="no such checks"):
        check_engine(embedded, skip={"all": "because"})

"""One run from its first question to its last: whatever happens, the record says how it ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Coordinator, Event
from fedgeom.federation.messages import unpack
from fedgeom.federation.method import Method
from fedgeom.federation.record import RunRecord, read_folder, read_status
from fedgeom.federation.session import Session
from tests.protocols.naming import NamesModel, Naming, named_sites
from tests.protocols.summing import killer


def held(
    method: Method, engine: EmbeddedEngine, record: Path | None = None, **options: Any
) -> tuple[Any, Coordinator]:
    log = None if record is None else RunRecord(record, {"method": method.name}, resume=record.exists())
    session = Session(method, options.pop("run", os.urandom(32)), 5, engine.roster, log, **options)
    found = session.conduct(engine)
    session.close()
    return found


def test_a_run_is_written_down_as_it_goes(tmp_path: Path) -> None:
    events: list[Event] = []
    engine = EmbeddedEngine(Naming(), named_sites(4))
    model, sites = held(Naming(), engine, tmp_path, watch=events.append)
    content = read_folder(tmp_path)
    assert content["status"]["state"] == "finished"
    assert content["ledger"].entries == sites.ledger.entries
    assert len(sites.ledger) == 6 * 4  # hello, meet, share, seal, open, take
    assert content["metrics"] == sites.metrics
    assert content["metrics"]["names"] == 5
    assert content["metrics"]["seconds"] >= 0
    assert (tmp_path / "model.safetensors").read_bytes() == model.to_bytes()
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == len(events) == 2 * 6 * 4
    assert sites.seed == 5


def test_without_a_record_nothing_is_written_and_the_model_is_the_same() -> None:
    run = os.urandom(32)
    first, _ = held(Naming(), EmbeddedEngine(Naming(), named_sites(4)), run=run)
    second, _ = held(Naming(), EmbeddedEngine(Naming(), named_sites(4)), run=run)
    assert first.to_bytes() == second.to_bytes()


def test_lost_sites_are_warnings_with_the_reason_and_what_to_do(tmp_path: Path) -> None:
    data = named_sites(4)
    lost = data[1].name
    engine = EmbeddedEngine(
        Naming(),
        data,
        interfere=lambda name, request: (
            "max_message_bytes = 9" if name == lost and unpack(request).kind == "names.seal" else None
        ),
    )
    _, sites = held(Naming(), engine, tmp_path, participants=(*engine.names, "zurich"))
    first, absent = read_folder(tmp_path)["warnings"]
    assert (first.site, first.why) == (lost, "max_message_bytes = 9")
    assert first.remedy.startswith("raise max_message_bytes")
    assert "fedgeom site start" in absent.remedy
    assert sites.warnings == [first, absent]


class Failing(Naming):
    """Holds the whole conversation and then fails."""

    error: BaseException

    def conduct(self, sites: Coordinator) -> NamesModel:
        super().conduct(sites)
        raise self.error


@pytest.mark.parametrize(
    ("error", "state", "detail"),
    [
        (ValueError("a bug"), "failed", "a bug"),
        (TooFewSitesError("two are missing"), "failed", "two are missing"),
        (KeyboardInterrupt(), "interrupted", "stopped by the user"),
        (SystemExit(), "interrupted", "stopped by the user"),
    ],
)
def test_however_it_ended_the_record_says_so(
    tmp_path: Path, error: BaseException, state: str, detail: str
) -> None:
    method = Failing()
    object.__setattr__(method, "error", error)
    with pytest.raises(type(error)):
        held(method, EmbeddedEngine(method, named_sites(4)), tmp_path)
    status = read_status(tmp_path)
    assert (status.state, status.detail) == (state, detail)
    assert len(read_folder(tmp_path)["ledger"]) == 24  # what left the sites is written down all the same
    assert not (tmp_path / "model.safetensors").exists()


def test_a_model_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    class Heavy(NamesModel):
        def to_bytes(self) -> bytes:
            raise OSError("no space left")

    class Unwritable(Naming):
        def conduct(self, sites: Coordinator) -> NamesModel:
            return Heavy(super().conduct(sites).names, np.eye(2))

    method = Unwritable()
    with pytest.raises(OSError, match="no space left"):
        held(method, EmbeddedEngine(method, named_sites(4)), tmp_path)
    assert read_status(tmp_path).state == "failed"


def test_with_a_transcript_a_run_with_too_few_sites_goes_on_when_they_are_back(tmp_path: Path) -> None:
    method = Naming(min_sites=4)
    engine = EmbeddedEngine(method, named_sites(4), interfere=killer({"s0001": ("names.open", 1)}))
    options: dict[str, Any] = {"run": os.urandom(32), "transcript": tmp_path / "t.bin"}
    with pytest.raises(TooFewSitesError, match="s0001: killed at names"):
        held(method, engine, tmp_path / "run", **options)
    assert read_status(tmp_path / "run").state == "failed"
    engine._interfere = None
    asked: list[bytes] = []
    deliver = engine.deliver

    def count(requests: Any) -> Any:
        asked.extend(requests.values())
        return deliver(requests)

    engine.deliver = count  # type: ignore[method-assign]
    model, sites = held(method, engine, tmp_path / "run", **options)
    assert len(model.names) == 5
    assert not sites.lost
    assert len(asked) == 1 + 4  # the one that was lost, and the model to all
    assert read_status(tmp_path / "run").state == "finished"
    assert len(read_folder(tmp_path / "run")["ledger"]) == 24


def test_a_site_whose_answer_was_useless_is_asked_again_when_the_run_goes_on(tmp_path: Path) -> None:
    """A wrong key can be set right."""
    method = Naming(min_sites=4)
    engine = EmbeddedEngine(method, named_sites(4))
    roster = dict(engine.roster)
    options: dict[str, Any] = {"run": os.urandom(32), "transcript": tmp_path / "t.bin"}
    wrong = Session(method, options["run"], 0, roster | {"s0001": bytes(32)}, None, options["transcript"])
    with pytest.raises(TooFewSitesError, match="was it admitted with another key"):
        wrong.conduct(engine)
    right = Session(method, options["run"], 0, roster, None, options["transcript"])
    _, sites = right.conduct(engine)
    assert not sites.lost

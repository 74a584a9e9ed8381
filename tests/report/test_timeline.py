"""The conversation, grouped."""

from __future__ import annotations

from fedgeom.federation.coordinator import Event
from fedgeom.federation.record import RunRecord
from fedgeom.report.run_folder import read_run
from fedgeom.report.timeline import (
    TimelineExchange,
    TimelineStep,
    read_exchanges,
    read_phases,
    read_steps,
    timeline,
)
from tests.report.folders import folder_of


def exchanges(kinds):
    return [TimelineExchange((TimelineStep(at, kind),)) for at, kind in enumerate(kinds, start=1)]


def test_a_sum_is_one_exchange_and_rounds_are_one_phase(tmp_path):
    run = read_run(folder_of(tmp_path / "run", rounds=4))
    steps = read_steps(run)
    assert len(steps) == 14
    phases = read_phases(read_exchanges(steps))
    assert [(one.exchanges[0].kind, one.times) for one in phases] == [
        ("join.hello", 1), ("train.masked", 4), ("train.finish", 1),
    ]  # fmt: skip
    assert phases[1].exchanges[0].sent == 3 * (4000 + 100 + 200)
    made = timeline(run)
    assert "× 4" in made
    assert "questions 2–13 · 51.6 kB" in made
    assert "summed in secret" in made
    assert made.count('class="stage"') == 2


def test_rounds_of_several_questions_are_found_also_where_one_comes_twice():
    found = read_phases(exchanges("a" + "bccd" * 3 + "e"))
    assert [(one.period, one.times) for one in found] == [(1, 1), (4, 3), (1, 1)]
    assert [(one.period, one.times) for one in read_phases(exchanges("xyz"))] == [(1, 1)] * 3


def test_who_was_lost_stands_where_it_happened(tmp_path):
    record = RunRecord(tmp_path / "run", {"method": "m", "seed": 0, "sites": {}})
    record.event(Event(1, "join.hello", "Ulm", "asked"))
    record.event(Event(1, "join.hello", "Ulm", "lost", "<no> power"))
    record.finish("failed", "x")
    made = timeline(read_run(tmp_path / "run"))
    assert "Ulm was lost: &lt;no&gt; power" in made


def test_a_run_without_questions_has_no_conversation(tmp_path):
    RunRecord(tmp_path / "run", {"method": "m", "seed": 0, "sites": {}}).finish("failed", "at once")
    assert timeline(read_run(tmp_path / "run")) == ""

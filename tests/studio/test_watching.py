"""A run while it goes on."""

from __future__ import annotations

import asyncio

from fedgeom.federation.coordinator import Event
from fedgeom.federation.record import RunRecord, Status, read_status
from fedgeom.studio.runs import SHOWN, Progress, Watcher, stream


def test_sums_are_one_question_and_the_newest_comes_first():
    progress = Progress()
    for step in range(1, 40):
        for site in ("a", "b"):
            progress.take(Event(2 * step - 1, "train.masked", site, "asked"))
        for site in ("a", "b"):
            progress.take(Event(2 * step - 1, "train.masked", site, "answered"))
        progress.take(Event(2 * step, "sum.confirm", "a", "asked"))
    assert len(progress.questions) == 39
    assert len(progress.last) == SHOWN
    assert progress.last[0].step == 77
    assert (progress.last[0].asked, len(progress.last[0].answered)) == (2, 2)
    progress.take(Event(77, "train.masked", "b", "lost", "no power"))
    progress.take(Event(77, "train.masked", "", "figures", "joint 90 %"))
    assert progress.last[0].lost == {"b": "no power"}
    assert progress.last[0].note == "joint 90 %"


def test_the_stream_says_what_changed_and_ends_with_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgeom.studio.runs.POLL_SECONDS", 0.01)
    record = RunRecord(tmp_path / "r", {"method": "m", "seed": 0, "sites": {}})

    async def follow():
        said = []
        states = iter(range(100))

        def status():
            at = next(states)
            if at == 1:
                record.event(Event(1, "join.hello", "a", "asked"))
            if at == 4:
                record.finish("failed", "too few\nsites")
            return read_status(tmp_path / "r")

        async for text in stream(tmp_path / "r", status, lambda p, s: f"{p.count}\n{s.state}", ("failed",)):
            said.append(text)
        return said

    said = asyncio.run(follow())
    assert said[0] == "event: progress\ndata: 0\ndata: running\n\n"
    assert said[1] == "event: progress\ndata: 1\ndata: running\n\n"
    assert said[-1] == "event: ended\ndata: failed\n\n"
    assert len(said) == 4


def test_a_run_without_a_folder_yet_has_no_questions(tmp_path):
    assert Watcher(tmp_path / "nothing").look().count == 0
    assert Status().state == "submitted"

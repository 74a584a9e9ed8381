"""A run while it goes on."""

from __future__ import annotations

import asyncio

import numpy as np

import fedgeom
from fedgeom.federation.coordinator import Event
from fedgeom.federation.policy import StrictPolicy
from fedgeom.federation.record import RunRecord, Status, read_status
from fedgeom.studio.runs import SHOWN, Progress, Watcher, stream
from tests.report.folders import folder_of


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


def test_the_rounds_the_share_and_what_left_follow_from_the_plan_and_the_ledger(tmp_path):
    folder = folder_of(tmp_path / "run", rounds=5)
    progress = Watcher(folder).look()
    assert (progress.rounds, progress.of_rounds) == (5, 5)
    assert progress.sites["site-000"].state == "answered"
    assert progress.sites["site-000"].sent == 500 + 5 * (4000 + 100 + 200) + 60
    assert progress.stage == "Learning"
    assert 0.5 < progress.share <= 1
    now = progress.began + 10
    assert progress.elapsed(now) == 10
    if progress.share < 1:
        assert 0 < progress.remaining(now) < 10


def test_a_run_whose_method_is_not_here_is_followed_without_a_plan(tmp_path):
    progress = Watcher(folder_of(tmp_path / "run", method="of-another-package")).look()
    assert progress.outline is None
    assert (progress.share, progress.of_rounds, progress.remaining(1e12)) == (0.0, 0, None)
    assert progress.count == 14


def test_what_a_real_run_asks_is_what_the_outline_says(tmp_path):
    sites = fedgeom.split(*blobs(), 3)
    for method in (fedgeom.Moments(space="euclidean"), fedgeom.FedAvg(n_rounds=4)):
        folder = tmp_path / method.name
        fedgeom.run(method, sites, record=folder, holdout=0.25, policy=StrictPolicy())
        progress = Watcher(folder).look()
        assert progress.count == progress.outline.questions
    assert (progress.rounds, progress.of_rounds) == (4, 4)


def blobs():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    return rng.normal(size=(240, 3)) + y[:, None], np.array(["no", "yes"])[y]


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

        async for text in stream(
            tmp_path / "r", status, lambda w, s: f"{w.progress.count}\n{s.state}", ("failed",)
        ):
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

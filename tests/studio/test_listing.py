"""Runs in lists."""

from __future__ import annotations

import os
import shutil

import msgspec

from fedgeom.evaluation.evaluation import FILE
from fedgeom.studio.places import run_line, run_names, side_by_side
from tests.evaluation.counting import figures
from tests.report.folders import folder_of


def test_runs_are_listed_the_newest_first_and_what_is_no_run_is_not(place):
    for at, name in enumerate(("old", "new")):
        folder = folder_of(place.runs / name, rounds=1)
        os.utime(folder / "status.json", (1000 + at, 1000 + at))
    (place.runs / ".studio").mkdir()
    (place.runs / "empty").mkdir()
    assert run_names(place.runs) == ["new", "old"]
    line = run_line(place.runs / "new")
    assert (line.method, line.state, line.sites, line.accuracy) == ("fedavg", "finished", 3, "")


def test_a_damaged_run_is_listed_as_far_as_it_can_be_read(place):
    folder = folder_of(place.runs / "a", rounds=1)
    (folder / "config.json").write_bytes(b"{")
    assert run_line(folder).method == ""


def test_runs_stand_side_by_side_with_what_they_differ_in(place):
    one = folder_of(place.runs / "one", rounds=1, parameters={"learning_rate": 0.1, "n_rounds": 3})
    two = folder_of(place.runs / "two", rounds=1, parameters={"learning_rate": 0.2, "n_rounds": 3})
    (two / FILE).write_bytes(msgspec.json.encode(figures()))
    head, rows = side_by_side([one, two])
    found = {row[0]: row[1:] for row in rows}
    assert head == ["", "one", "two"]
    assert found["accuracy"] == ["–", "0.700 [0.481, 0.855]"]
    assert found["learning_rate"] == ["default", "0.2"]
    assert "n_rounds" not in found


def test_five_hundred_runs_are_listed(place):
    first = folder_of(place.runs / "run-0", rounds=1)
    for at in range(1, 500):
        shutil.copytree(first, place.runs / f"run-{at}")
    names = run_names(place.runs)
    [run_line(place.runs / name) for name in names[:50]]
    assert len(names) == 500

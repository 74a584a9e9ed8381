"""Runs in lists."""

from __future__ import annotations

import os
import shutil

import msgspec
import pytest

from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import FILE
from fedgeom.evaluation.metrics import Figure
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
    found = side_by_side([one, two])
    assert found.names == ["one", "two"]
    title, lines = found.charts[0]
    assert (title, [line.label for line in lines]) == ("accuracy", ["two"])
    assert lines[0].said == "0.700 [0.481, 0.855]"
    rows = {row[0]: row[1:] for row in found.rows}
    assert rows["learning_rate"] == ["default", "0.2"]
    assert "n_rounds" not in rows


def test_the_best_run_is_marked_and_other_tests_are_told_apart(place):
    for name, right in (("one", 30), ("two", 38)):
        folder = folder_of(place.runs / name, rounds=1)
        made = figures()
        own = msgspec.structs.replace(made["own"], accuracy=Figure(right / 40, 0.6, 0.99))
        scores = [own if one.model == "own" else one for one in made.scores]
        (folder / FILE).write_bytes(msgspec.json.encode(msgspec.structs.replace(made, scores=scores, rows=right)))
    found = side_by_side([place.runs / "one", place.runs / "two"])
    assert [(line.label, line.strong) for line in found.charts[0][1]] == [("one", False), ("two", True)]
    assert not found.same_rows


def test_what_is_removed_comes_back_and_nothing_is_written_over(place):
    folder_of(place.runs / "a", rounds=1)
    batch = place.remove("runs", ["a"])
    assert run_names(place.runs) == []
    assert place.binned() == 1
    folder_of(place.runs / "a", rounds=2)
    with pytest.raises(InputError, match="another 'a' in runs by now"):
        place.restore(batch)
    assert place.rename("runs", "a", "b") == "b"
    assert place.restore(batch) == ["a"]
    assert sorted(run_names(place.runs)) == ["a", "b"]
    assert place.binned() == 0
    with pytest.raises(InputError, match="already"):
        place.rename("runs", "a", "b")
    for name in ("../b", "", "x/y"):
        with pytest.raises(InputError, match="wanted a name"):
            place.rename("runs", "a", name)
    with pytest.raises(InputError, match="no longer in the bin"):
        place.restore(batch)
    with pytest.raises(InputError, match="nothing was marked"):
        place.remove("files", [])


def test_five_hundred_runs_are_listed(place):
    first = folder_of(place.runs / "run-0", rounds=1)
    for at in range(1, 500):
        shutil.copytree(first, place.runs / f"run-{at}")
    names = run_names(place.runs)
    [run_line(place.runs / name) for name in names[:50]]
    assert len(names) == 500

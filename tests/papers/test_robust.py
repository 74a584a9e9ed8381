"""The script on sites that lie: its data, its liars, and how it sums up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from papers.robust import table
from papers.robust.liars import KINDS, flipped, lying, with_liars

pytestmark = pytest.mark.full


def test_the_best_classifier_is_right_on_957_of_1000_rows() -> None:
    tables, X, y = table.drawn(10, 3)
    assert [len(one) for one in tables] == [100] * 10
    centres = [X[y == name].mean(axis=0) for name in ("no", "yes")]
    found = np.where(X @ (centres[1] - centres[0]) > 0, "yes", "no")  # classes are opposite, and round
    assert np.mean(found == y) == pytest.approx(0.957, abs=0.01)


def test_flipped_labels_are_the_other_label() -> None:
    site = fedgeom.SiteData("s", np.zeros((3, 1)), np.array(["a", "b", "b"]))
    assert flipped(site).y.tolist() == ["b", "a", "a"]
    both = with_liars([site, site], ["t"], "label flips")
    assert [one.y.tolist() for one in both] == [["a", "b", "b"]] * 2  # nobody of that name is here


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "label flips"])
def test_liars_change_what_they_add_and_nothing_when_it_is_over(kind: str) -> None:
    tables, _, _ = table.drawn(10, 0)
    sites = [one.take(np.arange(20)) for one in tables[:4]]
    for method in (fedgeom.FedAvg(n_rounds=1, epochs=1), fedgeom.Moments(space="euclidean")):
        honest = fedgeom.run(method, sites).model.to_bytes()
        with lying(["s001"], kind, 4):
            assert fedgeom.run(method, sites).model.to_bytes() != honest
        assert fedgeom.run(method, sites).model.to_bytes() == honest


def test_cells_that_were_computed_are_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = next(table.cells(["moments"], [10], 1)) | {"accuracy": 0.5}
    monkeypatch.setattr(table, "CELLS", tmp_path / "cells.jsonl")
    assert table.known() == {}
    table.CELLS.write_text(json.dumps(cell) + "\n", encoding="utf-8")
    assert table.known() == {table.key(cell): cell}


def test_the_goal_is_looked_at_where_groups_are_more_than_twice_the_liars() -> None:
    way = {"method": "moments", "sites": 10, "kind": "scaling", "way": "GroupMedian", "seed": 0}
    done = [
        way | {"liars": 1, "accuracy": 0.95},
        way | {"liars": 1, "seed": 1, "accuracy": 0.9},
        way | {"liars": 2, "accuracy": 0.1},  # three groups are not more than four
        way | {"way": "sum (plain mean)", "liars": 1, "accuracy": None},
    ]
    found = table.summed_up(done)
    assert found["moments"]["10"]["GroupMedian"]["scaling"]["1"] == {
        "mean": 0.925,
        "worst": 0.9,
        "best": 0.95,
        "refused": 0,
        "n": 2,
    }
    said = table.held(found)
    assert said["cells"] == 1
    assert said["not above the goal in the worst seed"] == [["moments", 10, "GroupMedian", "scaling", 1, 0.9]]
    text = table.page(found)
    assert "Moments, 10 sites in 3 groups" in text
    assert "refused" in text
    assert ".925 (.900–.950, n = 2)" in text  # most cells here are of one seed

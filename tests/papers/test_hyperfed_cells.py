"""The script on cells in a tree, on a small made-up set: what is held out, what is counted, what is paired."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.full

pytest.importorskip("torch")
cells = importlib.import_module("papers.hyperfed.cells")
sets = importlib.import_module("papers.hyperfed.cell_sets")


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.concatenate([np.repeat([0, 1, 2], 40), [3] * 4])  # the last class is too rare
    counts = rng.poisson(1 + 5 * (np.arange(8) % 4 == y[:, None])).astype(np.uint16)
    file: dict[str, Any] = {
        "X_data": counts.ravel(),
        "X_indices": np.tile(np.arange(8), len(y)).astype(np.uint16),
        "X_indptr": np.arange(len(y) + 1) * 8,
        "X_shape": np.array([len(y), 8]),
        "y": y,
        "donor": np.arange(len(y)) % 3,
        "class_names": np.array(["c", "b", "a", "rare"]),
        "class_tree": np.array([["c", "y"], ["b", "x"], ["a", "x"], ["rare", "y"]]),
    }
    file |= {"cl_ids": np.array(["CL:3", "CL:2", "CL:1", "CL:4"])}
    edges = [[0, 4], [1, 4], [4, 5], [2, 5], [3, 5]]
    terms = {"ids": np.array([f"CL:{at}" for at in range(1, 7)]), "edges": np.array(edges)}
    terms |= {"names": np.array(["A", "B", "C", "rare", "x", "cell"])}
    files = {"cell_ontology.npz": terms}
    monkeypatch.setattr(sets, "load_data", lambda name: contextlib.nullcontext(files.get(name, file)))
    monkeypatch.setattr(sets, "GENES", 6)


def test_a_quarter_of_each_site_is_held_out_and_rare_classes_are_left_out(made_up: None) -> None:
    drawn = cells.draw("lung", 0)
    assert drawn.classes == ("a", "b", "c")
    assert [len(site) for site in drawn.sites] == [30, 30, 30]
    assert drawn.X.shape == (30, 6)
    assert drawn.tree.distances().tolist() == [[0, 2, 4], [2, 0, 4], [4, 4, 0]]
    again = cells.draw("lung", 0)
    np.testing.assert_array_equal(again.X, drawn.X)
    assert np.abs(cells.draw("lung", 1).X - drawn.X).max() > 0


def test_the_tree_may_be_that_of_the_cell_ontology(made_up: None) -> None:
    drawn = cells.draw("lung, Cell Ontology", 0)
    assert drawn.tree.distances().tolist() == [[0, 2, 3], [2, 0, 3], [3, 3, 0]]
    assert drawn.tree.nodes[1:] == ("c", "x (CL:5)", "a", "b")


def test_cells_that_no_site_has_are_tested_too(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sets.FILES, "lung", ("", "donor", 20, 7))
    drawn = cells.draw("lung", 0)
    assert [len(site) for site in drawn.sites] == [15, 15, 15]
    assert len(drawn.X) == 3 * (5 + 7)


def test_every_row_is_measured_once_and_the_page_pairs_seeds(made_up: None) -> None:
    results: dict[str, Any] = {"lung": {}}
    kept: list[int] = []
    for seed in (0, 1):
        known = results["lung"].setdefault(str(seed), {})
        cells.measure("lung", seed, 2, known, lambda: kept.append(1))
        assert set(known) == set(cells.ROWS)
    trainings = len([row for row in cells.ROWS if not row.endswith((cells.CLASS, cells.NODE, cells.SOFT))])
    assert len(kept) == 2 * trainings
    cells.measure("lung", 0, 2, results["lung"]["0"], lambda: kept.append(1))
    assert len(kept) == 2 * trainings
    for rows in results["lung"].values():
        for entry in rows.values():
            assert entry["by depth"][-1] == entry["accuracy"]
            assert entry["by depth"][0] >= entry["accuracy"]
    found = cells.summary(results["lung"])
    gap = found[cells.TARGETS]["tree error less FedAvg's"]["mean"]
    by_seed = [
        rows[cells.TARGETS]["tree error"] - rows["FedAvg"]["tree error"] for rows in results["lung"].values()
    ]
    assert gap == pytest.approx(np.mean(by_seed), abs=1e-4)
    results["lung"]["2"] = {"FedAvg": results["lung"]["0"]["FedAvg"]}  # under way
    page = cells.page(results | {"kang": {"0": {}}})
    assert "| FedAvg | 3 |" in page
    assert f"| {cells.TARGETS} | 2 |" in page
    assert "## kang" in page


def test_what_is_said_is_judged_by_the_tree(made_up: None) -> None:
    drawn = cells.draw("lung", 0)
    group = drawn.tree.nodes.index("x")
    said = np.full(len(drawn.y), group)
    found = cells.judge(drawn, said)
    away = np.array([1, 1, 3])[drawn.y]  # a and b are below x, c is not
    assert found["tree error"] == pytest.approx(away.mean(), abs=1e-4)
    assert found["accuracy"] == 0
    assert found["by depth"] == [pytest.approx(np.mean(drawn.y < 2), abs=1e-4), 0.0]


def test_even_targets_give_others_as_much_as_the_trees_and_the_secure_run_is_the_twin(made_up: None) -> None:
    drawn = cells.draw("lung", 0)
    even = cells.even_targets(drawn)
    assert 2 * np.exp(-2 / even.softness) == pytest.approx(
        np.mean(np.exp(-drawn.tree.distances() / cells.SOFTNESS).sum(axis=1)) - 1
    )
    assert cells.equal_in_secret(cells.TARGETS, drawn)

"""The script on few labels: how rows are dealt and shown, what is resumed, and what the page says."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.full

semi = importlib.import_module("papers.xclp.semi")
few_labels = importlib.import_module("papers.xclp.few_labels")


def test_cells_are_held_out_and_one_in_a_hundred_has_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(5), 1300)
    file = {
        "X": rng.normal(size=(6500, 7)).astype(np.float32),
        "y": rng.integers(0, 2, 6500),
        "class_names": np.array(["a", "b"]),
        "site": site,
    }
    monkeypatch.setattr(few_labels, "load_data", lambda name: contextlib.nullcontext(file))
    task = few_labels.draw("t-cells", 3)
    assert [len(one) for one in task.sites] == [900] * 5
    assert [int(np.sum(one.y != "")) for one in task.sites] == [9] * 5
    assert len(task.X) == len(task.y) == 1500
    learnt = {tuple(row) for one in task.sites for row in one.X.tolist()}
    assert not learnt & {tuple(row) for row in task.X.tolist()}


@pytest.mark.parametrize("kind", ["iid", "2 classes"])
def test_rows_are_dealt_once_and_skewed_sites_have_two_pieces(kind: str) -> None:
    y = np.repeat(np.arange(10), 60)
    dealt = few_labels.deal(y, kind, 10, np.random.default_rng(1))
    assert sorted(np.concatenate(dealt).tolist()) == list(range(600))
    classes = [len(np.unique(y[rows])) for rows in dealt]
    assert max(classes) <= 2 if kind == "2 classes" else min(classes) >= 8


def test_the_authors_splits_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    client = np.full((2, 50000), 255, np.uint8)
    client[1, :300] = np.arange(300) % 100
    shown = np.zeros((2, 50000), bool)
    shown[1, :100] = True
    names = np.array(["other", "1000_labels_100_labelled_clients_noniid2_split1"])
    file = {"client": client, "labelled": np.packbits(shown, axis=1), "name": names}
    monkeypatch.setattr(few_labels, "load_data", lambda name: contextlib.nullcontext(file))
    rows = np.arange(50000)[:, None]
    monkeypatch.setattr(few_labels, "filtered_cifar10", lambda part: (rows, np.arange(50000) % 10))
    task = few_labels.draw("cifar 1000 2 classes", 1)
    assert [len(one) for one in task.sites] == [3] * 100
    assert [int(np.sum(one.y != "")) for one in task.sites] == [1] * 100
    assert task.sites[7].X[:, 0].tolist() == [7, 107, 207]
    assert task.sites[7].y[0] == "7"


def test_what_is_known_is_not_computed_again_and_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []

    def train(name: str, row: str, task: Any, seed: int, rounds: int | None, *, twin: bool) -> float:
        assert twin == (row == semi.PUBLISHED)
        asked.append((name, row, seed))
        return 50.0 + seed

    monkeypatch.setattr(semi, "draw", lambda name, seed: None)
    monkeypatch.setattr(semi, "train", train)
    results: dict[str, Any] = {"t-cells": {"0": {"labelled only": 40.0}}}
    kept: list[int] = []
    semi.measure(["t-cells"], 2, results, lambda: kept.append(1), float("inf"))
    assert len(asked) == len(kept) == 2 * len(semi.ROWS) - 1
    assert ("t-cells", "labelled only", 0) not in asked
    semi.measure(["t-cells"], 3, results, lambda: kept.append(1), 0.0)
    assert len(asked) == 2 * len(semi.ROWS) - 1
    page = semi.page(results)
    assert "| t-cells | 18 | 45.5 ± 7.8 (n=2) |" in page
    assert page.count("(n=2, twins)") == 1  # the row over pairs
    assert "[70.9]" in semi.page({"cifar 1000 iid": {"0": {}}})


def test_twins_are_run_securely_when_they_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semi, "draw", lambda name, seed: None)
    monkeypatch.setattr(semi, "train", lambda *given, twin: 60.0)
    known = dict.fromkeys(semi.ROWS, 40.0)
    twins = [["t-cells", seed, row] for seed in "01" for row in semi.ROWS]
    results: dict[str, Any] = {"t-cells": {"0": dict(known), "1": dict(known)}, semi.TWINS: twins}
    assert semi.page(results).count("(n=2, twins)") == len(semi.ROWS)
    semi.measure(["t-cells"], 1, results, lambda: None, float("inf"), chosen=[semi.XCLP, semi.PUBLISHED])
    assert [row for row, found in results["t-cells"]["0"].items() if found == 60.0] == [semi.XCLP]
    assert "50.0 ± 14.1 (n=2, 1 twin)" in semi.page(results)
    assert ["t-cells", "0", semi.PUBLISHED] in results[semi.TWINS]
    blank: dict[str, Any] = {}
    semi.measure(["t-cells"], 1, blank, lambda: None, float("inf"), chosen=[semi.XCLP], twins=True)
    assert blank[semi.TWINS] == [["t-cells", "0", semi.XCLP]]


def test_every_row_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from tests.methods.xclp_training.making import sites

    data = sites(3, rows=24)
    monkeypatch.setitem(semi.SETS, "t-cells", semi.SETS["t-cells"] | {"epochs": 1})
    monkeypatch.setitem(semi.ANCHORS, "t-cells", 4)
    truth = np.concatenate([one.extra["truth"] for one in data])
    task = semi.Task(data, np.vstack([one.X for one in data]), truth)
    found = {
        row: [semi.train("t-cells", row, task, 0, 2, twin=twin) for twin in (True, row == semi.PUBLISHED)]
        for row in semi.ROWS
    }
    assert all(0 <= one == other <= 100 for one, other in found.values())

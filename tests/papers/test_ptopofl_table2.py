"""The script on networks: sites by Dirichlet shares and by writer, every row, and the page."""

from __future__ import annotations

import contextlib
import importlib

import numpy as np
import pytest

import fedgeom

pytestmark = pytest.mark.full

table2 = importlib.import_module("papers.ptopofl.table2")


def test_rows_are_dealt_once_and_every_site_has_enough() -> None:
    y = np.repeat(np.arange(10), 100)
    for alpha in (0.1, 0.5):
        dealt = table2.dirichlet(y, 10, alpha, np.random.default_rng(0))
        assert sorted(np.concatenate(dealt).tolist()) == list(range(1000))
        assert min(map(len, dealt)) >= table2.LEAST


def test_writers_with_the_most_images_are_the_sites(monkeypatch: pytest.MonkeyPatch) -> None:
    who = np.concatenate([np.zeros(300, np.int16), np.ones(200, np.int16), np.full(100, 2, np.int16)])
    file = {"X_train": np.zeros((600, 28, 28), np.uint8), "y_train": np.arange(600) % 10, "writer_train": who}
    monkeypatch.setattr(table2, "load_data", lambda name: contextlib.nullcontext(file))
    found = table2.draw("writers", 0, 2)
    assert [len(one) for one in found.train] == [240, 160]
    assert [len(one) for one in found.test] == [60, 40]


def test_every_row_runs_and_the_page_has_the_papers_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("gudhi")
    rng = np.random.default_rng(0)
    y = np.arange(40) % 10
    data = [
        fedgeom.SiteData(f"site {at:02d}", rng.integers(0, 255, (40, 784)).astype(np.uint8), y.astype(str))
        for at in range(4)
    ]
    monkeypatch.setitem(table2.SCENARIOS, "writers", table2.SCENARIOS["writers"] | {"epochs": 1})
    for settings in (table2.TOPOLOGY, table2.PUBLISHED):
        monkeypatch.setitem(settings, "n_points", 10)
    known = {row: table2.train("writers", row, table2.Scenario(data, data), 0, 2) for row in table2.ROWS}
    assert all(0 <= one <= 100 for one in known.values())
    page = table2.page({"writers": {"0": known}})
    assert "| pTopoFL, as published | – [74] | – [86] |" in page
    assert page.count("(n=1)") == len(table2.ROWS)

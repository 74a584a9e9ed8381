"""What a finished run leaves, in a line, in a table and in a frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.federation.ledger import Ledger, LedgerEntry
from fedgeom.federation.results import Run, RunWarning, lost_sites
from tests.federation.test_frames import without_pandas


class Thing:
    def __repr__(self) -> str:
        return "<Thing>"


def some(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "model": Thing(),
        "ledger": Ledger([LedgerEntry(step=1, site="a", kind="k", bytes=1500, received=5, reveals="nothing")]),
        "metrics": {"loss": [0.5, 0.25], "sites": 2, "fits": {"a": 1.0, "b": 0.5}},
        "sites": [SiteData(name, np.zeros((600, 1)), np.zeros(600)) for name in "ab"],
        "local": {"a": {"labels": ["x", ""], "confidences": [1.0, 0.0], "rows": 2}, "b": {"model": np.zeros(2)}},
        "lost": {},
    }
    return Run(**(fields | changes))


def test_labels_and_confidences_are_those_of_sites_that_have_any() -> None:
    assert {name: labels.tolist() for name, labels in some().labels.items()} == {"a": ["x", ""]}
    assert {name: sure.tolist() for name, sure in some().confidences.items()} == {"a": [1.0, 0.0]}


def test_the_frame_has_rounds_sites_and_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pandas(monkeypatch)
    rows = [tuple(row.values()) for row in some().frame()]
    assert rows == [
        (1, None, "loss", 0.5),
        (2, None, "loss", 0.25),
        (None, None, "sites", 2),
        (None, "a", "fits", 1.0),
        (None, "b", "fits", 0.5),
        (None, "a", "rows", 2),
    ]


def test_the_frame_of_pandas_has_the_same_columns() -> None:
    pytest.importorskip("pandas")
    frame = some().frame()
    assert frame.columns.tolist() == ["round", "site", "metric", "value"]
    assert frame[frame["metric"] == "loss"]["value"].tolist() == [0.5, 0.25]
    assert len(frame) == 6


def test_a_run_says_in_a_line_what_it_is_and_no_table() -> None:
    text = repr(some())
    assert text == "<Run: <Thing> from 2 sites with 1,200 rows; 1 messages, 1,500 bytes left them>"
    assert some(lost={"b": "no power", "a": "x"}).summary().endswith("; lost: a, b")


def test_a_notebook_shows_who_was_lost_and_no_html_of_others() -> None:
    many = [SiteData(f"s{i}", np.zeros((1, 1)), np.zeros(1)) for i in range(13)]
    page = some(lost={"b": "<script>"}, sites=many)._repr_html_()
    assert "b: &lt;script&gt;" in page
    assert "&lt;Thing&gt;" in page
    assert "s11 …" in page
    assert "s12" not in page
    assert "<td>nobody</td>" in some()._repr_html_()


def test_warnings_are_a_word_in_the_line_and_whole_in_a_notebook() -> None:
    lost = {"b": "no power"}
    odd = some(lost=lost, warnings=[*lost_sites(lost), RunWarning("two <words> in one class", "evidence " * 99)])
    assert repr(odd).endswith("; lost: b; 1 warning: see run.warnings>")
    assert "two &lt;words&gt; in one class" in odd._repr_html_()

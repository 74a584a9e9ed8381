"""The picture of a rehearsal: a mark for every row and every corner, class by class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from fedgeom.data.validation import Report
from fedgeom.deploy.preview import Preview
from fedgeom.report.disc import draw_preview


@dataclass(frozen=True)
class Shown:
    label: str
    points: np.ndarray
    sent: np.ndarray


def found(*shown):
    return Preview("anna", "hulls", "own", 2, [], list(shown), [], Report.of("hulls", [], []))


@pytest.fixture
def axes(monkeypatch):
    """The axes of the last figure that was drawn."""
    from matplotlib.figure import Figure

    made, add = [], Figure.add_subplot
    monkeypatch.setattr(Figure, "add_subplot", lambda self: made.append(add(self)) or made[-1])
    return made


def test_every_row_and_every_corner_is_drawn(tmp_path, axes):
    rng = np.random.default_rng(0)
    rows, sent = rng.normal(size=(2, 9, 2)) / 9, rng.normal(size=(2, 3, 2)) / 9
    shown = [Shown(label, rows[at], sent[at]) for at, label in enumerate("ab")]
    file = draw_preview(found(*shown), tmp_path / "preview.png")
    assert file.read_bytes().startswith(b"\x89PNG")
    marks = [one.get_offsets() for one in axes[0].collections]
    for one, drawn in zip((part for each in shown for part in (each.points, each.sent)), marks, strict=True):
        np.testing.assert_array_equal(drawn, one)
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["a", "b"]

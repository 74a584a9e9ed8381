"""Colours."""

from __future__ import annotations

from fedgeom.report.palette import colours, rgb


def test_colours_differ():
    for n in (1, 2, 6, 7, 10, 19, 30):
        assert len(set(colours(n))) == n


def test_shares_of_a_colour():
    assert rgb("#ff0033") == (1.0, 0.0, 0.2)
    # The eleventh is the first again, darker.
    assert [round(a / b, 1) for a, b in zip(rgb(colours(19)[10]), rgb(colours(19)[0]), strict=True)] == [0.6] * 3

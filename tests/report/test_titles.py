"""Titles that fit above small pictures."""

from __future__ import annotations

import pytest

from fedgeom.report.disc import SIZES, fit_title, width_of

LONG = "Universitätsklinikum Nr. 07 Nordrhein"


@pytest.mark.full
@pytest.mark.parametrize("width", [40.0, 100.0, 130.0, 180.0, 400.0])
@pytest.mark.parametrize("text", ["Ulm", LONG, "x" * 80, "Site " * 20])
def test_no_line_is_wider_than_the_room(text: str, width: float) -> None:
    """With twelve discs, the names of the sites ran into each other."""
    title = fit_title(text, width)
    assert title.lines <= 2
    assert all(width_of(line, title.size) <= width for line in title.text.split("\n"))
    assert title.text


def test_letters_are_made_smaller_before_any_is_left_out() -> None:
    wide = width_of(LONG, SIZES[0])
    assert fit_title(LONG, wide) == fit_title(LONG, 2 * wide)
    assert (fit_title(LONG, wide).text, fit_title(LONG, wide).size) == (LONG, SIZES[0])
    assert (fit_title(LONG, 0.9 * wide).text, fit_title(LONG, 0.9 * wide).size) == (LONG, SIZES[1])
    wrapped = fit_title(LONG, 0.6 * wide)
    assert (wrapped.lines, wrapped.text.replace("\n", " ")) == (2, LONG)
    assert fit_title("x" * 40 + "7", 60.0).text.endswith("7")  # names often differ at their ends

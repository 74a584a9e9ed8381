"""The bricks of pages."""

from __future__ import annotations

import re

import pytest

from fedgeom.report import markup
from fedgeom.report.markup import Interval, interval_chart


def test_nothing_that_others_wrote_becomes_markup():
    hostile = "<script>alert(1)</script>\x1b[2J"
    for made in (
        markup.paragraph(hostile),
        markup.items([hostile]),
        markup.details(hostile, ""),
        markup.interval_chart([Interval(hostile, 0.5, 0.4, 0.6, hostile)]),
        markup.bar([(hostile, 1.0)]),
        markup.section("x", hostile, "y"),
    ):
        assert "<script" not in made
        assert "\x1b" not in made
        assert "&lt;script&gt;" in made


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.91, 0.96, ["0.80", "0.85", "0.90", "0.95", "1.00"]),
        (0.0, 0.97, ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00"]),
        (0.5, 0.52, ["0.40", "0.45", "0.50", "0.55", "0.60"]),
    ],
)
def test_an_axis_has_as_much_room_as_its_intervals_need_and_a_fifth_at_least(low, high, ticks):
    made = interval_chart([Interval("a", (low + high) / 2, low, high, "")])
    shown = re.findall(r">(\d\.\d\d)</i>", made)
    assert shown[0] == ticks[0] or float(shown[0]) <= low
    assert float(shown[-1]) >= high - 0.05
    assert 3 <= len(shown) <= markup.MOST_TICKS
    places = [float(one) for one in re.findall(r"left:([\d.]+)%", made)]
    assert all(0 <= one <= 100 for one in places)


def test_an_interval_is_drawn_where_it_lies():
    made = interval_chart([Interval("a", 0.5, 0.25, 0.75, "")], whole=True)
    assert '<i style="left:25.0%;width:50.0%"></i><b style="left:50.0%"></b>' in made


def test_an_empty_section_is_none():
    assert markup.section("x", "Title") == ""
    assert markup.items([]) == ""
    assert markup.paragraph("") == ""


def test_bars_add_up_and_small_shares_are_not_nothing():
    made = markup.bar([("much", 999.0), ("little", 1.0)])
    assert "100 %" in made
    assert "under 1 %" in made


def test_a_document_needs_nothing_from_elsewhere():
    page = markup.document("T", "<p>x</p>", n_classes=12)
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert "@import" not in page
    assert "url(" not in page
    assert "--c11:" in page
    assert "prefers-color-scheme" in page
    assert "@media print" in page

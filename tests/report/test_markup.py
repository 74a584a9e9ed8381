"""The bricks of pages."""

from __future__ import annotations

import re

from fedgeom.report import markup


def test_nothing_that_others_wrote_becomes_markup():
    hostile = "<script>alert(1)</script>\x1b[2J"
    for made in (
        markup.paragraph(hostile),
        markup.items([hostile]),
        markup.details(hostile, ""),
        markup.span(hostile, 0.5, 0.4, 0.6, hostile),
        markup.bar([(hostile, 1.0)]),
        markup.section("x", hostile, "y"),
    ):
        assert "<script" not in made
        assert "\x1b" not in made
        assert "&lt;script&gt;" in made


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

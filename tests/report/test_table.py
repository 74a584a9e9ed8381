"""A table as a value, for the terminal and for a page."""

from __future__ import annotations

import subprocess
import sys

from rich.console import Console

from fedgeom.report.table import Cell, ReportTable, size, styled, to_html, to_terminal
from tests.report.printing import printed

TABLE = ReportTable(
    "Rows",
    ["site", "rows"],
    [["Ulm", "12"], [Cell("✗ Bern", "bad"), "3"], styled(["all", "15"], "strong")],
    right=(1,),
    aside="of two",
    notes=["counted twice", "", Cell("Take Ulm", "strong")],
)


def test_on_a_terminal():
    assert [line.rstrip() for line in printed(TABLE, ReportTable("", ["", ""], [["a", "b"]])).splitlines()] == [
        "Rows (of two)",
        "site    rows",
        "Ulm       12",
        "✗ Bern     3",
        "all       15",
        "counted twice",
        "",
        "Take Ulm",
        "",
        "a  b",
    ]


def test_emphasis_is_the_same_in_both():
    console = Console(width=80, record=True, force_terminal=True, color_system="standard")
    console.print(to_terminal(TABLE))
    shown = console.export_text(styles=True)
    page = to_html(TABLE)
    assert "\x1b[31m✗ Bern" in shown
    assert '<th scope="row" class="bad">✗ Bern</th>' in page
    assert "\x1b[1m15" in shown.replace("  ", "")
    assert '<td class="n strong">15</td>' in page
    assert '<p class="dim">counted twice</p><p class="strong">Take Ulm</p>' in page


def test_a_page_names_columns_and_rows_for_screen_readers():
    page = to_html(TABLE)
    assert '<th scope="col">site</th><th scope="col" class="n">rows</th>' in page
    assert '<th scope="row">Ulm</th><td class="n">12</td>' in page
    assert 'aria-label="Table: Rows" tabindex="0"' in page
    assert "<thead><tr><td></td>" in to_html(ReportTable("", ["", "rows"], []))
    assert "<thead>" not in to_html(ReportTable("", ["", ""], [["a", "b"]]))


def test_nothing_that_others_wrote_is_markup_in_either():
    hostile = "[red]x[/red]<script>alert(1)</script>\x1b[2J"
    table = ReportTable(hostile, [hostile], [[hostile]], aside=hostile, notes=[hostile])
    page = to_html(table)
    assert "<script" not in page
    shown = printed(table)
    assert shown.count("[red]x[/red]<script>") == 5
    assert "\x1b" not in page + shown


def test_nothing_that_others_wrote_poses_as_a_line_of_ours():
    forged = "moments\nseed     7"
    shown = printed(ReportTable(forged, [forged], [[forged]], aside=forged, notes=[forged]))
    assert "seed     7" not in [line.strip() for line in shown.splitlines()]
    assert shown.count("moments\\nseed     7") == 5


def test_texts_are_without_emphasis():
    assert TABLE.texts == [["Ulm", "12"], ["✗ Bern", "3"], ["all", "15"]]


def test_sizes_are_written_as_people_do():
    assert [size(count) for count in (0, 999, 1500, 2.5e6, 3e9)] == ["0 B", "999 B", "1.5 kB", "2.5 MB", "3.0 GB"]


def test_pages_do_without_rich():
    """Only the terminal needs it, and it is slow to import."""
    code = "import sys, fedgeom.report.page, fedgeom.report.tables; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

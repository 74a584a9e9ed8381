"""What tables look like as text."""

from __future__ import annotations

from rich.console import Console

from fedgeom.report.table import ReportTable, to_terminal


def printed(*tables: ReportTable, width: int = 160) -> str:
    """Return what a terminal would show, a wide one if nothing is said."""
    console = Console(width=width, record=True)
    console.print(to_terminal(*tables))
    return console.export_text()

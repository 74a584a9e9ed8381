"""What a rich table looks like as text."""

from __future__ import annotations

from typing import Any

from rich.console import Console


def printed(table: Any, width: int = 160) -> str:
    """Return what a terminal would show, a wide one if nothing is said."""
    console = Console(width=width, record=True)
    console.print(table)
    return console.export_text()

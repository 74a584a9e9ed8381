"""What a rich table looks like as text."""

from __future__ import annotations

from typing import Any

from rich.console import Console


def printed(table: Any) -> str:
    """Return what a wide terminal would show."""
    console = Console(width=160, record=True)
    console.print(table)
    return console.export_text()

"""The tables of a sweep: what each row tried and what was chosen, and how the chosen settings do."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedgeom.evaluation.figures import COLUMNS
from fedgeom.evaluation.sweep import Sweep
from fedgeom.report.contests import contest_table
from fedgeom.report.tables import new_table

WIDTH = 160
"""How many characters wide the page is."""


def sweep_tables(swept: Sweep) -> Group:
    """Return the tables for the terminal: what was tried, where a row had a choice, and the rows beside each other."""
    parts: list[Any] = [tried_table(swept), Text("")] if swept.tried else []
    return Group(*parts, contest_table(swept.contest))


def tried_table(swept: Sweep) -> Table:
    """Return every setting with the figure it was judged by, and with how many seeds it was chosen."""
    seeds = len(swept.contest.seeds)
    head = ["row", "settings", COLUMNS[swept.by], "from", "to", "chosen"]
    table = new_table(
        "What was tried [dim](on rows set aside among those learnt from; mean, least and most over the seeds)[/dim]",
        head,
        right=(2, 3, 4, 5),
    )
    for row, settings in swept.settings.items():
        tried = sorted({one.number for one in swept.tried if one.row == row})
        if tried:
            table.add_section()
        for number in tried:
            found, times = swept.judged(row, number), swept.times_chosen(row, number)
            cells = (
                [f"{value:.3f}" for value in (np.mean(found), min(found), max(found))]
                if found
                else ["failed", "", ""]
            )
            style = "bold" if times else ""
            name = escape(row) if number == tried[0] else ""
            table.add_row(
                name, escape(settings_text(settings[number])), *cells, f"{times} of {seeds}", style=style
            )
    return table


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as people write them.

    >>> settings_text({"rate": 0.1, "optimizer": {"name": "sgd", "momentum": 0.9}})
    'rate = 0.1, optimizer = sgd (momentum = 0.9)'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in settings.items()) or "as they are"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        rest = {name: one for name, one in value.items() if name != "name"}
        return " ".join(
            part for part in (str(value.get("name", "")), f"({settings_text(rest)})" if rest else "") if part
        )
    return str(value)


def sweep_page(swept: Sweep, title: str) -> str:
    """Return the same tables as one HTML page that needs nothing else."""
    screen = Console(record=True, width=WIDTH, file=StringIO(), color_system=None)
    screen.print(Text(title, style="bold"), Text(""), sweep_tables(swept), sep="\n")
    return screen.export_html()

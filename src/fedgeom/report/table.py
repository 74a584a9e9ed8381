"""A table as a value, and its two forms: for the terminal and for a page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from fedgeom.errors import printable
from fedgeom.report.markup import escape, paragraph, scroll

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

Style = Literal["", "strong", "dim", "good", "bad", "doubt"]
TERMINAL: dict[Style, str] = {
    "": "",
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "bad": "red",
    "doubt": "yellow",
}
"""How emphasis looks on a terminal; on pages it is a class of the style sheet."""


class Cell(NamedTuple):
    """A text with emphasis."""

    text: str
    style: Style = ""


Line = Sequence[str | Cell]
"""One row."""


@dataclass(frozen=True)
class ReportTable:
    """What is shown, whoever shows it. Texts are plain: no markup of a terminal or of a page has a meaning in them."""

    title: str
    head: Sequence[str]
    """The columns' names; with none but empty ones there is no head."""
    rows: Sequence[Line]
    """On pages the first cell of a row names it."""
    right: Collection[int] = ()
    """The columns of numbers, which are aligned to the right."""
    aside: str = ""
    """What is said beside the title."""
    notes: Sequence[str | Cell] = ()
    """What is said below the table, line by line; an empty text leaves a line free on a terminal."""

    @property
    def texts(self) -> list[list[str]]:
        """The rows without emphasis."""
        return [[_cell(one).text for one in row] for row in self.rows]


def styled(row: Sequence[str], style: Style) -> list[Cell]:
    """Return a row with the same emphasis in all cells."""
    return [Cell(text, style) for text in row]


def size(count: float) -> str:
    """Write a number of bytes for people.

    >>> size(512), size(25_300), size(3_200_000), size(1.99e9)
    ('512 B', '25.3 kB', '3.2 MB', '2.0 GB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def to_terminal(*tables: ReportTable) -> RenderableType:
    """Return tables as rich prints them, a free line between them."""
    from rich.console import Group  # slow to import, and only commands print
    from rich.table import Table as Grid

    parts: list[RenderableType] = []
    for table in tables:
        if parts:
            parts.append("")
        if table.title:
            title = to_text(Cell(table.title, "strong"))
            parts.append(title.append_text(to_text(Cell(f" ({table.aside})", "dim"))) if table.aside else title)
        grid = Grid(header_style="dim", box=None, pad_edge=False, show_header=any(table.head))
        for at, name in enumerate(table.head):
            justify: Literal["left", "right"] = "right" if at in table.right else "left"
            grid.add_column(to_text(name), justify=justify, overflow="fold")
        for row in table.rows:
            grid.add_row(*(to_text(one) for one in row))
        parts.append(grid)
        parts += [to_text(_cell(note, "dim")) for note in table.notes]
    return Group(*parts)


def to_html(table: ReportTable) -> str:
    """Return a table for a page, in a box that scrolls; its title is read aloud, and a heading above shows it."""
    top = "".join(_html(table, at, Cell(name), top=True) for at, name in enumerate(table.head))
    lines = ("".join(_html(table, at, _cell(one)) for at, one in enumerate(row)) for row in table.rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    head = f"<thead><tr>{top}</tr></thead>" if any(table.head) else ""
    notes = "".join(paragraph(note.text, note.style) for note in (_cell(one, "dim") for one in table.notes))
    name = table.title or ", ".join(filter(None, table.head))
    return scroll(f"<table>{head}<tbody>{body}</tbody></table>", f"Table: {name}") + notes


def _cell(one: str | Cell, style: Style = "") -> Cell:
    return one if isinstance(one, Cell) else Cell(one, style)


def to_text(one: str | Cell) -> Text:
    """Return one line with which a terminal can do nothing but show it.

    Rich lets escape sequences through, and a line end would let what others wrote pose as lines of ours.
    """
    from rich.text import Text  # slow to import, and only commands print

    cell = _cell(one)
    return Text(printable(cell.text), style=TERMINAL[cell.style])


def _html(table: ReportTable, at: int, cell: Cell, *, top: bool = False) -> str:
    kinds = " ".join(filter(None, ("n" if at in table.right else "", cell.style)))
    named = f' class="{kinds}"' if kinds else ""
    if top and cell.text:
        return f'<th scope="col"{named}>{escape(cell.text)}</th>'
    if at == 0 and not top:
        return f'<th scope="row"{named}>{escape(cell.text)}</th>'
    return f"<td{named}>{escape(cell.text)}</td>"

"""Titles that fit above small pictures: smaller letters first, then two lines, then fewer letters."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

SIZES = (11.5, 10.0, 8.5)
"""Sizes of letters, in points, from the one that is wished for to the smallest that can be read."""


@dataclass(frozen=True)
class Title:
    """A title as it is drawn: one line or two."""

    text: str
    size: float

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n") + 1


def width_of(text: str, size: float) -> float:
    """Return how wide a line is in points."""
    from matplotlib.textpath import TextPath  # slow to import

    return float(TextPath((0, 0), text, size=size).get_extents().width) if text.strip() else 0.0


def fit_title(text: str, width: float) -> Title:
    """Return a title that is at most so many points wide.

    >>> fit_title("Ulm", 100.0)
    Title(text='Ulm', size=11.5)
    """
    for size in SIZES:
        if width_of(text, size) <= width:
            return Title(text, size)
    size = SIZES[-1]
    letters = max(int(len(text) * width / width_of(text, size)), 1)
    lines = textwrap.wrap(text, letters) or [text]
    kept = [lines[0], " ".join(lines[1:])] if len(lines) > 1 else lines
    return Title("\n".join(_cut(line, size, width) for line in kept), size)


def _cut(line: str, size: float, width: float) -> str:
    """Leave letters out of the middle of a line until it fits: names often differ at their ends."""
    shown, left = line, len(line)
    while left > 2 and width_of(shown, size) > width:
        left -= 1
        shown = f"{line[: (left + 1) // 2].rstrip()}…{line[len(line) - left // 2 :].lstrip()}"
    return shown

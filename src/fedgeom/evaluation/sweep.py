"""Rows of a table, each with several settings to try: which one is chosen, and how the chosen ones do.

Settings are chosen by rows that sites set aside among those they learn from; the rows that a table's figures come from
play no part in it. So a row that tries more settings is not flattered by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from fedgeom.evaluation.contest import JUDGED, Contest, Entry
from fedgeom.evaluation.figures import COLUMNS
from fedgeom.federation.frames import as_frame

HEAD = ["stage", "row", "number", "settings", "seed", "model", "metric", "value", "low", "high", "chosen"]
"""The columns of `Sweep.lines`."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one row's setting with one seed, on rows set aside among those learnt from."""

    row: str
    number: int
    """Which of the row's settings, from 0."""
    entry: Entry
    chosen: bool = False
    """Whether it is the best of the row with this seed."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """All that came of a sweep."""

    share: float
    """The share of rows kept aside, of all for the test and of the rest for the choice."""
    by: str = JUDGED
    """The figure that settings are chosen by."""
    settings: dict[str, list[dict[str, Any]]]
    """For each row the settings that were tried."""
    tried: list[Tried]
    tested: list[Entry]
    """The chosen settings of each row and seed, on the test rows."""

    @property
    def contest(self) -> Contest:
        """The rows beside each other, each with what was chosen for it."""
        return Contest(share=self.share, entries=self.tested)

    def judged(self, row: str, number: int) -> list[float]:
        """Return the figures that a row's setting was judged by, for the seeds with which it came through."""
        mine = [one.entry for one in self.tried if (one.row, one.number) == (row, number)]
        return [value for entry in mine if (value := figure(entry, self.by)) is not None]

    def times_chosen(self, row: str, number: int) -> int:
        """Return with how many seeds a row's setting was chosen."""
        return sum(one.chosen for one in self.tried if (one.row, one.number) == (row, number))

    def frame(self) -> Any:
        """Return all figures as a pandas frame, or as records without pandas."""
        return as_frame(HEAD, self.lines())

    def lines(self) -> list[tuple[Any, ...]]:
        """Return every figure of every run: first those that settings were chosen by, then those of the test."""
        found = []
        for one in self.tried:
            found += self._figures("choosing", one.row, one.number, one.entry, one.chosen)
        for entry in self.tested:
            numbers = [
                one.number
                for one in self.tried
                if one.chosen and (one.row, one.entry.seed) == (entry.method, entry.seed)
            ]
            found += self._figures("tested", entry.method, numbers[0] if numbers else 0, entry, True)
        return found

    def _figures(self, stage: str, row: str, number: int, entry: Entry, chosen: bool) -> list[tuple[Any, ...]]:
        if entry.evaluation is None:
            return []
        said = msgspec.json.encode(self.settings[row][number], order="sorted").decode()
        return [
            (
                stage,
                row,
                number,
                said,
                entry.seed,
                score.model,
                metric,
                found.value,
                found.low,
                found.high,
                chosen,
            )
            for score in entry.evaluation.scores
            for metric in COLUMNS
            if (found := getattr(score, metric)) is not None
        ]


def figure(entry: Entry, by: str) -> float | None:
    """Return what a run is judged by: a figure of what sites end with; None where it failed or has none."""
    if entry.evaluation is None or "own" not in entry.evaluation:
        return None
    found = getattr(entry.evaluation["own"], by)
    return None if found is None else float(found.value)


def best(entries: Sequence[Entry], by: str) -> int | None:
    """Return which of the runs is best, the first of those that are; None where all failed."""
    values = [figure(entry, by) for entry in entries]
    if all(value is None for value in values):
        return None
    return int(np.argmax([-np.inf if value is None else value for value in values]))

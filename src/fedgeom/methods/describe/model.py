"""What a description holds, and the frame that is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.federation.disclosure import KEPT, REASONS
from fedgeom.federation.ledger import as_frame
from fedgeom.federation.model import Model
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.steps import FLOORS, StepFit
from fedgeom.preparation.one_hot import OTHER, title_of_rest
from fedgeom.preparation.quantiles import ALL_BITS
from fedgeom.preparation.summaries import ColumnSummaries

ALL = "all"
"""Stands for all classes together."""
NUMBER, WORD, EMPTY, RARE = range(4)
"""What an entry is: a column of numbers; one word of a column of text, its empty cells, or its rare words together."""
EXACT, NONE, ABOUT, SOME = range(4)
"""How well gaps are known: counted, none at all, to multiples of ``min_rows``, or only that there are a few."""
FEW_COUNTED = 0.5
"""Quantiles are told where the groups that were counted have at least this share of the numbers."""


@dataclass(frozen=True, repr=False)
class Description(Model):
    """Counts, gaps, means, deviations, quantiles and shares of all sites' rows together; it predicts nothing."""

    method: str = field(default="describe", init=False)

    raw: tuple[str, ...]
    """What the columns are called."""
    labels: tuple[str, ...]
    """The classes; none where they are not described."""
    words: tuple[str, ...]
    """Of each entry the word, "" for a column of numbers."""
    shares: tuple[float, ...]
    """Which quantiles there are."""
    sites: int
    floors: tuple[int, int]
    """How many sites and rows a number rests on at least."""
    left_out: dict[str, str]
    """Columns that are not described, and words that are not told apart, by why."""
    bits: int
    of: Ints
    """(entries,): the column of each."""
    kinds: Ints
    """(entries,): `NUMBER`, `WORD`, `EMPTY` or `RARE`."""
    gap_kinds: Ints
    """(entries,): how well gaps are known."""
    rows: Floats
    """(groups,): all rows, then those of each class."""
    numbers: Floats
    """(groups, entries): how many rows have a value."""
    means: Floats
    deviations: Floats
    """(groups, entries)"""
    quantiles: Floats
    """(groups or 1, entries, shares)"""
    counted: Floats
    """(groups or 1, entries): how many numbers were in groups that are large enough to be counted for quantiles."""
    site_names: tuple[str, ...] = ()
    site_rows: Floats = field(default_factory=lambda: np.zeros(0))
    site_gaps: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """(sites, columns): gaps of each site, -1 where there are few; empty where they were not asked for."""

    predicts: ClassVar[bool] = False

    @property
    def everywhere(self) -> bool:
        """It predicts nowhere."""
        return False

    @property
    def groups(self) -> tuple[str, ...]:
        """All rows, and the classes."""
        return (ALL, *self.labels)

    def predict(self, X: npt.ArrayLike) -> NoReturn:
        """Refuse: a description knows no classes of rows."""
        raise InputError(
            "a description predicts nothing; run a method, such as fedgeom.Ridge(), for a model that does"
        )

    def for_site(self, local: Mapping[str, Any]) -> Model:
        """Return itself: it is the same for all sites."""
        return self

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and facts of the model file."""
        arrays, facts = super().tensors()
        return arrays, facts | {"left_out": dict(self.left_out)}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Build the description from a file's content, if its parts fit together."""
        made = super().from_tensors(arrays, facts)
        entries = len(made.of)
        groups = len(made.groups)
        fits = (
            made.rows.shape == (groups,)
            and all(one.shape == (groups, entries) for one in (made.numbers, made.means, made.deviations))
            and made.quantiles.shape == (*made.counted.shape, len(made.shares))
            and made.counted.shape in ((groups, entries), (1, entries))
            and len(made.kinds) == len(made.gap_kinds) == len(made.words) == entries
            and (not entries or 0 <= made.of.min() <= made.of.max() < len(made.raw))
            and made.site_gaps.shape in ((0, 0), (len(made.site_names), len(made.raw)))
        )
        if not fits:
            raise InputError("the file's description does not fit together")
        return made

    def with_gaps(self, told: Mapping[str, tuple[int, npt.NDArray[Any]]]) -> Description:
        """Return the description with the gaps of each site: how many rows it has, and gaps in each column."""
        gaps = np.array([one for _, one in told.values()], np.float64)
        if gaps.shape != (len(told), len(self.raw)):
            raise InputError(f"gaps of {len(self.raw)} columns are wanted from each site")
        rows = np.array([count for count, _ in told.values()], np.float64)
        return replace(self, site_names=tuple(told), site_rows=rows, site_gaps=gaps)

    def rank_error(self, group: int, entry: int) -> float:
        """Return by what share of the numbers a quantile's rank may be off at most (`preparation.quantiles`)."""
        least_sites, least_rows = self.floors
        at = min(group, len(self.counted) - 1)
        n = self.counted[at, entry]
        if least_rows <= 1 or n <= 0:
            return 0.0
        return float(min((self.sites + least_sites + 1) * least_rows / n, 1.0))

    def lines(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of what is told, and a line for each column, or word of it, and class; NaN: not told."""
        names = ["column", "value", "class", "rows", "missing", "mean", "sd"]
        names += [f"q{100 * share:g}" for share in self.shares]
        names += ["share", "rank_error", "note"]
        lines = [
            line for at in range(len(self.raw)) for line in (*self._lines(at), *self._left_out(at, len(names)))
        ]
        return names, lines

    def frame(self) -> Any:
        """Return the lines as a frame, or as records without pandas."""
        found = as_frame(*self.lines())
        if hasattr(found, "attrs"):
            found.attrs |= {
                "rows": {name: int(count) for name, count in zip(self.groups, self.rows, strict=True)},
                "sites": self.sites,
                "min_sites": self.floors[0],
                "min_rows": self.floors[1],
            }
        return found

    def _left_out(self, column: int, width: int) -> list[tuple[Any, ...]]:
        why = self.left_out.get(self.raw[column])
        nan = (float("nan"),) * (width - 4)
        return [(self.raw[column], "", ALL, *nan, f"left out: {why}")] if why else []

    def _lines(self, column: int) -> list[tuple[Any, ...]]:
        entries = np.flatnonzero(self.of == column).tolist()
        if not entries:
            return []
        if self.kinds[entries[0]] == NUMBER:
            return [self._number_line(entries[0], at) for at in range(len(self.groups))]
        return [line for at in range(len(self.groups)) for line in self._word_lines(column, entries, at)]

    def missing(self, entry: int, group: int) -> float:
        """Return how many rows of a group have a gap in a column of numbers; NaN: few."""
        if self.gap_kinds[entry] == SOME:
            return float("nan")
        return float(self.rows[group] - self.numbers[group, entry])

    def _number_line(self, entry: int, group: int) -> tuple[Any, ...]:
        n = self.numbers[group, entry]
        note = {ABOUT: "missing is rounded", SOME: "few are missing"}.get(int(self.gap_kinds[entry]), "")
        values = [self.means[group, entry], self.deviations[group, entry]]
        if n < max(self.floors[1], 2):
            values = [float("nan"), float("nan")]
            note = "too few numbers"
        quantiles = self.told_quantiles(entry, group)
        error = self.rank_error(group, entry) if quantiles else float("nan")
        blank = [float("nan")] * len(self.shares)
        missing = self.missing(entry, group)
        title = self.raw[self.of[entry]]
        tail = (*(quantiles or blank), float("nan"), error, note)
        return (title, "", self.groups[group], float(n), missing, *map(float, values), *tail)

    def is_flag(self, entry: int) -> bool:
        """Return whether a column of numbers has 0 and 1 alone: its numbers are their own squares."""
        n = self.numbers[0, entry]
        mean = self.means[0, entry]
        square = mean**2 + self.deviations[0, entry] ** 2 * max(n - 1, 0) / max(n, 1)
        return bool(n > 1 and 0 < mean < 1 and abs(square - mean) < 1e-9)

    def told_quantiles(self, entry: int, group: int) -> list[float]:
        """Return the quantiles of a column of numbers; none where the groups that count have too few of them."""
        if group >= len(self.counted) or not len(self.shares):
            return []
        enough = self.counted[group, entry] > 0 and (
            self.counted[group, entry] >= FEW_COUNTED * self.numbers[group, entry]
        )
        return [float(one) for one in self.quantiles[group, entry]] if enough else []

    def categories(self, column: int, group: int) -> tuple[list[tuple[str, float]], float]:
        """Return the words of a column of text with their rows, the rest taken together, and how many are empty."""
        entries = np.flatnonzero(self.of == column).tolist()
        counts = {entry: float(np.rint(self.means[group, entry] * self.rows[group])) for entry in entries}
        missing = next((counts[entry] for entry in entries if self.kinds[entry] == EMPTY), None)
        found = [
            (_rest(self.words[entry]) if self.kinds[entry] == RARE else self.words[entry], counts[entry])
            for entry in entries
            if self.kinds[entry] in (WORD, RARE)
        ]
        title = self.raw[column]
        hidden = [one.removeprefix(f"{title} = ") for one in self.left_out if one.startswith(f"{title} = ")]
        if hidden:  # what all others leave over
            name = hidden[0] if len(hidden) == 1 else "others: " + ", ".join(one or "missing" for one in hidden)
            rest = float(self.rows[group]) - sum(counts.values())
            if hidden == [""]:
                missing = rest
            else:
                found.append((name, rest))
        gaps_hidden = "" in hidden and len(hidden) > 1
        return found, float("nan") if gaps_hidden else (missing or 0.0)

    def _word_lines(self, column: int, entries: Sequence[int], group: int) -> list[tuple[Any, ...]]:
        found, missing = self.categories(column, group)
        nan = float("nan")
        there = self.rows[group] - (0.0 if np.isnan(missing) else missing)
        blank = (nan,) * (2 + len(self.shares))
        note = "" if not np.isnan(missing) else "missing are among the others"
        return [
            (
                self.raw[column],
                word,
                self.groups[group],
                n,
                missing,
                *blank,
                n / there if there else nan,
                nan,
                note,
            )
            for word, n in found
        ]

    def gaps_frame(self) -> Any:
        """Return a frame (column, one for each site): gaps of each site, where the terms had sites tell them."""
        rows = [(name, *self.site_gaps[:, at].tolist()) for at, name in enumerate(self.raw)]
        return as_frame(["column", *self.site_names], rows if len(self.site_names) else [])


def description_of(
    preparation: Preparation, classes: Sequence[str], sites: int, floors: tuple[int, int]
) -> Description:
    """Return the description that a fitted preparation holds; its last step is `ColumnSummaries`."""
    raw = preparation.raw
    titles = tuple(raw.names or map(str, range(raw.width)))
    entries = [(at, NUMBER, "") for at in range(raw.width) if at not in raw.categories]
    for at, words in raw.categories.items():
        entries += [(at, WORD if word else EMPTY, word) for word in words]
        if at in raw.together:
            entries.append((at, RARE, title_of_rest(raw, at).removeprefix(f"{titles[at]} ")))
    left_out: dict[str, str] = {}
    few_gaps: list[int] = []
    for step, fit in zip(preparation.steps, preparation.fits, strict=True):
        if step.name == FLOORS:
            entries, left_out = _kept(entries, titles, fit)
            few_gaps = fit.get("few_gaps").tolist()
    step = preparation.steps[-1]
    if not isinstance(step, ColumnSummaries):
        raise InputError("a description is made of sums that this preparation does not have")
    for at, title in enumerate(titles):
        if not any(of == at for of, _, _ in entries) and title not in left_out:
            left_out[title] = left_out.get(f"{title} = ", "too few rows or sites have any of its values")
    gone = {title for at, title in enumerate(titles) if not any(of == at for of, _, _ in entries)}
    left_out = {name: why for name, why in left_out.items() if name.split(" = ")[0] not in gone or name in gone}
    parts = _summed(preparation.fits[-1], few_gaps)
    quantiles = preparation.fits[-1].get("quantiles")
    shown = [step.shares.index(share) for share in step.quantiles]
    return Description(
        raw=titles,
        labels=tuple(classes),
        words=tuple(word for _, _, word in entries),
        shares=step.quantiles,
        sites=sites,
        floors=floors,
        left_out=left_out,
        bits=min(step.bits, ALL_BITS),
        of=np.array([of for of, _, _ in entries], np.int64),
        kinds=np.array([kind for _, kind, _ in entries], np.int64),
        quantiles=np.array(quantiles[:, :, shown]),
        counted=preparation.fits[-1].get("counted").astype(np.float64),
        **parts,
    )


def _rest(word: str) -> str:
    """Return what rare words together are called, from what the column of them is called.

    >>> _rest("is another"), _rest("= placebo or another")
    ('others', 'placebo or others')
    """
    return "others" if word == OTHER else f"{word.removeprefix('= ').removesuffix(' or another')} or others"


def _kept(
    entries: list[tuple[int, int, str]], titles: Sequence[str], fit: StepFit
) -> tuple[list[tuple[int, int, str]], dict[str, str]]:
    """Return the entries that floors keep, and why the others are left out."""
    why = fit.get("why")[: len(entries)].tolist()
    left_out = {}
    for (of, kind, word), reason in zip(entries, why, strict=True):
        if reason != KEPT:
            title = titles[of] if kind == NUMBER else f"{titles[of]} = {_rest(word) if kind == RARE else word}"
            left_out[title] = REASONS[reason]
    return [one for one, reason in zip(entries, why, strict=True) if reason == KEPT], left_out


def _summed(fit: StepFit, few_gaps: Sequence[int]) -> dict[str, Any]:
    """Return means, deviations and numbers of rows, of all rows and of each class, from the sums."""
    rows, sums, squares, gaps = (fit.get(name) for name in ("rows", "sums", "squares", "gaps"))
    about = fit.get("about").astype(np.float64)
    hidden = np.zeros(sums.shape[1], bool)
    hidden[list(few_gaps)] = True
    known = np.where(hidden, np.where(fit.get("gap_sites") == 0, NONE, ABOUT), EXACT)
    gaps = np.where(hidden, np.minimum(about, rows[:, None]), gaps)
    if len(rows) > 1:
        parts = [np.concatenate([one.sum(axis=0)[None], one]) for one in (rows, sums, squares, gaps)]
        rows, sums, squares, gaps = parts
    known = np.where((known == ABOUT) & (gaps[0] == 0), SOME, known)
    numbers = rows[:, None] - gaps
    n = np.maximum(numbers, 1.0)
    mean = sums / n
    spread = np.sqrt(np.maximum(squares - n * mean**2, 0.0) / np.maximum(n - 1, 1.0))
    return {
        "rows": rows,
        "numbers": numbers,
        "means": fit.get("centre") + fit.get("unit") * mean,
        "deviations": fit.get("unit") * spread,
        "gap_kinds": known.astype(np.int64),
    }

"""What sites count: which class the rows kept aside have, and which a model gives them. All counts are one vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints

MODELS = ("own", "joint", "local")
"""Whose answers are counted: the model that a site ends with, the joint one where that is another, and one that is
trained on the site's own rows alone."""
BINS = 256
"""How many bins the scores of two classes fall into."""
FARTHEST = 8.0
"""asinh of the largest log-odds with a bin of its own: farther ones are in the last bin."""


SQUARES = 4
"""How many numbers say how a model's right answers fall on groups of rows (`Tally.groups`)."""


def counts_length(classes: int, *, grouped: bool = False) -> int:
    """Return how many numbers a site sends: they follow from the number of classes, and whether rows have groups."""
    return 1 + (classes + 1) + len(MODELS) * (_block(classes) + SQUARES * grouped)


def _block(classes: int) -> int:
    return 1 + (classes + 1) ** 2 + (2 * BINS if classes == 2 else 0)


@dataclass(frozen=True, eq=False)
class Tally:
    """The counts of one model."""

    right: int
    """How many rows it calls as their site does."""
    confusion: Ints
    """(classes + 1, classes + 1): rows by the class they have and the class they are given. The last row is of words
    that no joint class stands for, the last column of answers that are none of the site's words for the class."""
    scores: Ints | None
    """(2, bins): for two classes, rows by the class they have and the bin of the log-odds (`score_bins`)."""
    groups: Ints | None = None
    """(4,): where rows are kept aside by group, such as patient, with r of its n rows called rightly: how many groups
    there are, and the sums over groups of r², r·n and n²."""

    @property
    def rows(self) -> int:
        """How many rows were tested."""
        return int(self.confusion.sum())

    def flat(self) -> Ints:
        """Return all counts in one vector."""
        scores = [] if self.scores is None else [self.scores.ravel()]
        return np.concatenate([[self.right], self.confusion.ravel(), *scores]).astype(np.int64)

    @classmethod
    def read(cls, values: Ints, classes: int) -> Tally:
        """Read a vector of counts."""
        size = classes + 1
        scores = values[1 + size**2 :].reshape(2, BINS) if classes == 2 else None
        return cls(int(values[0]), values[1 : 1 + size**2].reshape(size, size), scores)

    @classmethod
    def blank(cls, classes: int, *, grouped: bool = False) -> Tally:
        """Return counts of nothing."""
        made = cls.read(np.zeros(_block(classes), np.int64), classes)
        return replace(made, groups=np.zeros(SQUARES, np.int64)) if grouped else made


@dataclass(frozen=True, eq=False)
class Counts:
    """All counts of one site, or their sum over sites."""

    sites: int
    """How many sites had rows to test on."""
    trained: Ints
    """(classes + 1,): how many rows of each class were learnt from; the last are of words without a joint class."""
    models: dict[str, Tally]
    """By name (`MODELS`); all zero where a model is none."""

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.trained) - 1

    def flat(self) -> Ints:
        """Return all counts in one vector, (`counts_length`,)."""
        ordered = [self.models[name] for name in MODELS]
        squares = [one.groups for one in ordered if one.groups is not None]
        return np.concatenate([[self.sites], self.trained, *(one.flat() for one in ordered), *squares]).astype(
            np.int64
        )

    @classmethod
    def read(cls, values: Ints, classes: int) -> Counts:
        """Read a vector of counts."""
        first, size = 2 + classes, _block(classes)
        blocks = [values[first + at * size : first + (at + 1) * size] for at in range(len(MODELS))]
        models = {name: Tally.read(block, classes) for name, block in zip(MODELS, blocks, strict=True)}
        if len(values) == counts_length(classes, grouped=True):
            squares = values[counts_length(classes) :].reshape(len(MODELS), SQUARES)
            models = {name: replace(models[name], groups=own) for name, own in zip(MODELS, squares, strict=True)}
        return cls(int(values[0]), values[1:first], models)


def private_counts(counts: Counts) -> Ints:
    """Return what is summed with privacy: which class the rows have and which the joint model gives them, and no more.

    A row is in one cell, so that one more or less moves one number by 1. What models trained at one site say, and how
    many rows they were trained on, has no such bound. Returns (classes²,).
    """
    return counts.models["own"].confusion[:-1, :-1].ravel()


def mended_counts(noisy: Floats, classes: int, sites: int) -> Counts:
    """Return counts that could be, from a sum with noise: the nearest with no cell below 0 and the same total.

    noisy (classes²,), f8. Cutting off what is below 0 alone would add rows that nobody has: one for each empty cell.
    """
    total = max(float(noisy.sum()), 0.0)
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(noisy) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1]) if (ordered > excess).any() else 0
    cells = np.rint(np.maximum(noisy - excess[last], 0.0)).astype(np.int64).reshape(classes, classes)
    models = {name: Tally.blank(classes) for name in MODELS}
    confusion = np.zeros((classes + 1, classes + 1), np.int64)
    confusion[:-1, :-1] = cells
    models["own"] = Tally(int(np.trace(cells)), confusion, models["own"].scores)
    # How many rows were learnt from is not told; which class most rows have, the test's counts say as well.
    return Counts(sites, np.append(cells.sum(axis=1), 0), models)


def tally(
    said: npt.NDArray[np.str_],
    words: npt.NDArray[np.str_],
    said_class: Ints,
    true_class: Ints,
    classes: int,
    chances: Floats | None = None,
    groups: npt.NDArray[Any] | None = None,
) -> Tally:
    """Count what a model says of rows.

    said, words (rows,): the model's words and the site's own; said_class, true_class (rows,): the joint classes of
    both, ``classes`` where there is none; chances (rows, 2): for two classes, their probabilities; groups (rows,): the
    group of each, where intervals are to heed them.
    """
    right = said == words
    # The class may be right and the word another one of the site: then the row is called wrongly all the same.
    given = np.where((said_class == true_class) & ~right, classes, said_class)
    confusion = np.zeros((classes + 1, classes + 1), np.int64)
    np.add.at(confusion, (true_class, given), 1)
    scores = None
    if classes == 2:
        scores = np.zeros((2, BINS), np.int64)
        if chances is not None:
            known = true_class < classes
            np.add.at(scores, (true_class[known], score_bins(chances[known])), 1)
    return Tally(int(right.sum()), confusion, scores, None if groups is None else _squares(right, groups))


def _squares(right: npt.NDArray[np.bool_], groups: npt.NDArray[Any]) -> Ints:
    """Return how right answers fall on groups (`Tally.groups`)."""
    found, of_row = np.unique(groups, return_inverse=True)
    n = np.bincount(of_row, minlength=len(found)).astype(np.int64)
    r = np.bincount(of_row, weights=right, minlength=len(found)).astype(np.int64)
    return np.array([len(found), (r * r).sum(), (r * n).sum(), (n * n).sum()], np.int64)


def score_bins(chances: Floats) -> Ints:
    """Return the bin of each row's log-odds of the second class: equally wide in asinh, so that far ones have bins too.

    chances (rows, 2), f8; returns (rows,), i8 from 0 to `BINS` - 1.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.nan_to_num(np.log(chances[:, 1]) - np.log(chances[:, 0]), nan=0.0, posinf=1e300, neginf=-1e300)
    place = (np.arcsinh(odds) / FARTHEST + 1) / 2 * BINS
    return np.asarray(np.clip(place, 0, BINS - 1), np.int64)


def class_numbers(words: npt.NDArray[np.str_], numbers: dict[str, int], classes: int) -> Ints:
    """Return the joint class of each word, ``classes`` where there is none.

    words (rows,); returns (rows,), i8.
    """
    return np.array([numbers.get(word, classes) for word in words.tolist()], np.int64)


def numbered(names: Sequence[object]) -> dict[str, int]:
    """Return the number of each name of a list."""
    return {str(name): at for at, name in enumerate(names)}

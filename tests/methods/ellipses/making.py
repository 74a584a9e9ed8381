"""Sites for the tests of Ellipses: classes as clouds, under words of the sites' own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.data.sites import SiteData

CENTRES = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 1.0], [0.0, 7.0, 0.0], [6.0, 7.0, -1.0]])
"""Classes 0 and 1 lie below, 2 and 3 above."""


def cloud(seed: int, which: int, rows: int = 60) -> np.ndarray:
    """Return rows of one class."""
    return CENTRES[which] + np.random.default_rng([seed, which]).normal(size=(rows, 3)) * [1.0, 0.7, 0.5]


def site(name: str, seed: int, words: Sequence[str], rows: int = 60) -> SiteData:
    """Return a site that calls class 0, 1, … so; a class whose word is empty is lacking."""
    parts = [(cloud(seed, at, rows), word) for at, word in enumerate(words) if word]
    X = np.vstack([part for part, _ in parts])
    return SiteData(name, X, np.repeat([word for _, word in parts], [len(part) for part, _ in parts]))


def own_words(rows: int = 60) -> list[SiteData]:
    """Return four sites with words of their own for four classes; the last two lack one."""
    words = (("a", "b", "c", "d"), ("vier", "drei", "zwei", "eins"), ("1", "2", "", "4"), ("", "p", "q", "r"))
    return [site(f"s{at}", at, mine, rows) for at, mine in enumerate(words)]


def at_depth() -> list[SiteData]:
    """Return five sites: the second has one word for the upper classes, the third for the lower, the fourth both."""
    words = (
        ("a", "b", "c", "d"),
        ("k", "l", "upper", "upper"),
        ("below", "below", "m", "n"),
        ("low", "low", "high", "high"),
        ("w", "x", "y", "z"),
    )
    return [site(f"s{at}", at, mine) for at, mine in enumerate(words)]

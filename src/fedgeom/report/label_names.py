"""Which local name was taken for which global class, and how many are right where the truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Truth = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class NameEvidence:
    """How near a name's class is, and how near the next best one would be."""

    own: float | None
    """The distance to its class; None: no other site has it."""
    rival: int
    """The next best class; -1: there is none."""
    other: float | None
    """The distance to that."""
    verdict: str
    """"certain", "doubtful" or "alone"."""

    @property
    def ratio(self) -> float:
        """How near the two distances are: 0 is sure, 1 a coin toss."""
        return 0.0 if self.own is None or not self.other else self.own / self.other


@dataclass(frozen=True)
class Naming:
    """The names of every global class, by site."""

    classes: tuple[int, ...]
    names: tuple[str, ...]
    """What each global class is called here: its true name if known, else one of the sites' names."""
    by_site: dict[str, dict[int, list[str]]]
    """Site, global class, the site's names for it."""
    wrong: dict[str, list[str]]
    """Site, the names that were put with the wrong class; empty without the truth."""
    known: bool
    """Whether the truth was known."""
    evidence: dict[str, dict[str, NameEvidence]] = field(default_factory=dict)
    """Site, the site's name, how sure its class is; empty where the method does not say."""

    @property
    def doubtful(self) -> list[tuple[str, str]]:
        """The sites and names whose class is in doubt, the least sure first."""
        found = [
            (-one.ratio, site, word)
            for site, words in self.evidence.items()
            for word, one in words.items()
            if one.verdict == "doubtful"
        ]
        return [(site, word) for _, site, word in sorted(found)]

    @property
    def total(self) -> int:
        """How many local names there are in all."""
        return sum(len(words) for groups in self.by_site.values() for words in groups.values())

    @property
    def right(self) -> int:
        """How many of them are with the class that they mean."""
        return self.total - sum(map(len, self.wrong.values()))


def read_naming(local: Mapping[str, Mapping[str, Any]], truth: Truth | None = None) -> Naming:
    """Put the sites' own results side by side; ``local`` is `Run.local`.

    A global class has no name of its own. With the truth it gets the common name that most of its local names
    mean, each common name once.
    """
    by_site: dict[str, dict[int, list[str]]] = {}
    for site, result in local.items():
        groups = by_site.setdefault(site, {})
        for word, group in result.get("names", {}).items():
            groups.setdefault(int(group), []).append(str(word))
        for word, several in result.get("covers", {}).items():  # a word that stands for several classes
            for group in several if word not in result["names"] else ():
                groups.setdefault(int(group), []).append(str(word))
    evidence = {
        site: {str(word): NameEvidence(**one) for word, one in result["evidence"].items()}
        for site, result in local.items()
        if isinstance(result.get("names"), Mapping) and result.get("evidence")
    }
    classes = tuple(sorted({group for groups in by_site.values() for group in groups}))
    if truth is None:
        return Naming(classes, tuple(_first(by_site, group) for group in classes), by_site, {}, False, evidence)
    titles = _assign(by_site, classes, truth)
    wrong = {
        site: [word for group, words in groups.items() for word in words if truth[site][word] != titles[group]]
        for site, groups in by_site.items()
    }
    return Naming(classes, tuple(titles[group] for group in classes), by_site, wrong, True, evidence)


def _first(by_site: Mapping[str, Mapping[int, list[str]]], group: int) -> str:
    """Name a class by the word most sites use for it, the first in the alphabet among equals."""
    words = [word for groups in by_site.values() for word in groups.get(group, [])]
    return min(set(words), key=lambda word: (-words.count(word), word))


def _assign(
    by_site: Mapping[str, Mapping[int, list[str]]], classes: tuple[int, ...], truth: Truth
) -> dict[int, str]:
    from scipy.optimize import linear_sum_assignment  # slow to import

    meant = sorted({word for words in truth.values() for word in words.values()})
    votes = np.zeros((len(classes), len(meant)))
    for site, groups in by_site.items():
        for group, words in groups.items():
            for word in words:
                votes[classes.index(group), meant.index(truth[site][word])] += 1
    rows, columns = linear_sum_assignment(votes, maximize=True)
    found = {classes[row]: meant[column] for row, column in zip(rows, columns, strict=True)}
    return {group: found.get(group, f"class {group}") for group in classes}

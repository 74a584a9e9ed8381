"""The questions of a run in plain words, for the terminal, the report and the studio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WORDS = {
    "join.hello": "invite the sites, collect signed keys",
    "join.draw": "draw who masks with whom, and who is in which group",
    "join.share": "exchange sealed shares of keys",
    "ellipses.scales": "masked means and deviations of the columns, for a joint scale",
    "ellipses.classes": "masked numbers of classes",
    "ellipses.sum": "masked counts, means and covariances of each class",
    "ellipses.take-model": "give every site the model",
    "ellipses.covers": "masked ticks: what each word covers",
    "ellipses.tree": "give every site the joint tree",
    "prepare.seal": "sealed names of columns and categories",
    "prepare.hold": "everybody's sealed columns",
    "prepare.categories": "masked numbers of sites and rows of each category",
    "prepare.keep": "the joint columns, and categories that enough have",
    "prepare.cells": "masked numbers of cells with a value",
    "prepare.bins": "masked numbers of values in bins, for a quantile",
    "prepare.moments": "masked sums of columns, or of squares",
    "prepare.products": "masked products of columns, for components",
    "prepare.directions": "masked covariance times directions, for components",
    "prepare.ranks": "masked choices of columns",
    "prepare.rows": "show every site the last sum; it prepares its rows",
    "hulls.scales": "masked means and deviations of the columns, for a joint scale",
    "hulls.scatter": "masked scatter, for a joint map",
    "hulls.extent": "masked sizes",
    "hulls.encode": "masked hulls",
    "hulls.corners": "masked corners of each class",
    "hulls.take-model": "give every site the model",
    "hyperfed.compare": "train; begin to compare the changes",
    "hyperfed.relay": "compare the changes of two sites",
    "names.seal": "sealed label names",
    "names.open": "the union of the label names",
    "names.hold": "everybody's sealed label names",
    "names.count": "masked numbers of sites and rows of each label name",
    "names.keep": "the label names that enough sites and rows have",
    "train.columns": "masked sums of the columns",
    "train.rows": "masked numbers of rows",
    "train.begin": "tell the sites classes and scale",
    "train.group-columns": "masked sums of the columns, in each group",
    "train.group-rows": "masked numbers of rows, in each group",
    "train.begin-groups": "tell the sites classes and scale, by the groups' sums",
    "train.group": "train; masked models, in each group",
    "train.masked": "train; masked models",
    "train.open": "train; each site's model",
    "train.finish": "give every site the model",
    "model.take": "give every site the model",
    "model.result": "give every site the sum; it checks it and makes the model",
    "moments.group": "masked counts, sums and squares of each class, in each group",
    "moments.groups": "give every site the groups' sums; it checks them and makes the model",
    "moments.sum": "masked counts, sums and squares of each class",
    "ridge.columns": "masked counts of classes, sums and squares of columns",
    "ridge.patches": "masked sums and squares of patches",
    "ridge.patch-counts": "masked sizes of clusters of patches",
    "ridge.clusters": "masked clusters of patches, the next filters",
    "ridge.gram": "masked products of features",
    "ridge.bounded": "masked counts, sums and products, with noise",
    "ridge.solution": "give every site the solution",
    "ridge.check": "show every site the sum; it checks the solution",
    "ridge.calibration": "masked fit of probabilities",
    "semi.embed": "give the sites the model whose features are compared",
    "ridge.evidence": "masked evidence on personal models",
    "ridge.take-evidence": "each site makes its own model",
    "ridge-update.base": "give every site the features and sums from before",
    "ridge-update.counts": "masked numbers of changed rows",
    "ridge-update.gram": "masked change of the products of features",
    "ridge-update.check": "show every site the sums; it checks the solution",
    "topo.describe": "the shape of each site's rows",
    "topo.describe.activations": "give every site the model; the shape of what it makes of the rows",
    "topo.describe.private": "the shape of each site's rows, with noise",
    "shrunk.terms": "masked losses and their derivatives",
    "shrunk.evidence": "masked scores of the candidates",
    "shrunk.take-evidence": "give every site the joint models; it makes its own",
    "xclp.ask-rows": "how many rows, and which have a label",
    "xclp.begin": "hash the rows, begin to compare them",
    "xclp.relay": "compare rows of two sites",
    "xclp.count": "masked numbers of labelled rows",
    "xclp.spread": "masked labels, spread along the graph",
    "xclp.collect": "give every site the labels of its rows",
    "xclp.mean": "masked mean direction",
    "xclp.cell-counts": "masked sizes of clusters",
    "xclp.cell-sums": "masked centres of clusters",
    "xclp.codes": "masked ties between clusters",
    "xclp.read-model": "give every site anchors and their scores",
    "xclp.label-counts": "masked numbers of labels found",
    "xclp.weigh": "give every site the scale of confidences",
    "evaluation.sum": "test the model; masked counts",
    "sum.confirm": "  agree on who is in the sum",
    "sum.witness": "  let the others sign it too",
    "sum.unmask": "  unmask the sum, and only the sum",
}
"""Questions in plain words; others are shown by their kind."""

STAGES = {
    "join": "Getting together",
    "prepare": "Preparing the rows",
    "names": "Agreeing on names",
    "evaluation": "Testing the model",
}
"""What a question is for, by the first part of its kind; all others are the learning itself."""

SUMS = ("sum.confirm", "sum.witness", "sum.unmask")
"""The questions that belong to the sum before them."""


def in_words(kind: str) -> str:
    """Return a question in plain words, or its kind where nobody wrote any.

    >>> in_words("hulls.encode"), in_words("mine.ask")
    ('masked hulls', 'mine.ask')
    """
    return WORDS.get(kind, kind).strip()


def stage_of(kind: str) -> str:
    """Return what a question is for.

    >>> stage_of("prepare.bins"), stage_of("hulls.encode")
    ('Preparing the rows', 'Learning')
    """
    return STAGES.get(kind.partition(".")[0], "Learning")


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

"""Sites that lie: they join, mask and sign as they should, and add to sums what suits them.

A liar runs the sites' own code but for one thing: what it puts into the sum. It does the worst that stays within the
bounds of the terms: a sum beyond them is refused, and nobody learns from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import fedgeom
from fedgeom.geometry.gaussians import class_moments
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.methods.iterative.tree import Tree, from_wire
from fedgeom.methods.moments import site as moments_site

KINDS = ("sign flips", "scaling", "label flips", "a copied model")
SCALED = 1000.0
"""By what a scaling liar multiplies what it learnt from flipped labels."""


def flipped(site: fedgeom.SiteData) -> fedgeom.SiteData:
    """Return a site whose two labels have changed places."""
    names = np.unique(site.y.astype(str))
    return fedgeom.SiteData(
        site.name, site.X, np.where(site.y.astype(str) == names[0], names[-1], names[0]).astype(str)
    )


def with_liars(sites: Sequence[fedgeom.SiteData], liars: Sequence[str], kind: str) -> list[fedgeom.SiteData]:
    """Return the sites; labels of liars are flipped where that is what they do, or what they scale."""
    lie = kind in ("label flips", "scaling")
    return [flipped(site) if lie and site.name in liars else site for site in sites]


@contextmanager
def lying(liars: Sequence[str], kind: str, sites: int) -> Iterator[None]:
    """Let these sites lie, in every sum of models or moments, as long as this lasts; ``sites``: how many there are.

    - sign flips: what was learnt, with the opposite sign, times the number of sites, so that a mean turns round;
    - scaling: what was learnt from flipped labels, times a thousand;
    - a copied model: all liars add the very same, a model that is wrong wherever the honest one is right.

    Flipped labels need no changed code.
    """
    summing = moments_site.MomentsSite
    with (
        patch.object(TrainingSite, "train", _training(liars, kind, sites)),
        patch.object(moments_site, "class_moments", _Moments(liars, kind, sites)),
        patch.object(summing, "sum_moments", _named(summing.sum_moments)),
    ):
        yield


def _training(liars: Sequence[str], kind: str, sites: int) -> Any:
    honest = TrainingSite.train

    def train(self: TrainingSite, asked: bytes, round: int, given: Any, rate: float) -> Any:
        sent, weight, figures = honest(self, asked, round, given, rate)
        if self.name not in liars or kind == "label flips":
            return sent, weight, figures
        start = from_wire(given)["model"]
        if kind == "a copied model":  # opposite to what the first liar's rows say, and the same in all rounds
            change = Tree(_wrong_model(self, start)) - start
        else:
            change = (sent["model"] - start) * (-float(sites) if kind == "sign flips" else SCALED)
        return sent | {"model": start + change}, weight, figures

    return train


_WRONG: dict[bytes, Tree] = {}


def _wrong_model(site: TrainingSite, like: Tree) -> Tree:
    """Return one model for all liars of a run: ten times the opposite of what the first of them would learn alone."""
    if site.run not in _WRONG:
        _WRONG.clear()
        task = site.task(0, site.rule.learning_rate)
        _WRONG[site.run] = task.fit(like * 0.0, epochs=20) * -10.0
    return _WRONG[site.run]


class _Moments:
    """Stands for `class_moments` at sites: bends those of liars."""

    site: str = ""

    def __init__(self, liars: Sequence[str], kind: str, sites: int):
        self.liars, self.kind, self.sites = liars, kind, sites
        self.copied: Any = None

    def __call__(self, X: Any, y: Any, classes: Sequence[str], **options: Any) -> Any:
        found = class_moments(X, y, classes, **options)
        if _Moments.site not in self.liars or self.kind == "label flips":
            return found
        table = found.reshape(len(classes), -1).copy()
        if self.kind == "sign flips":
            table[:, 1 : 1 + X.shape[1]] *= -1.0
            table *= self.sites
        elif self.kind == "scaling":  # many rows, far away, with labels flipped
            table = SCALED * class_moments(3.0 * X, y, classes, **options).reshape(table.shape)
        else:  # the first liar's, classes exchanged, of a hundred times as many rows
            self.copied = 100.0 * table[::-1] if self.copied is None else self.copied
            table = self.copied
        return table.ravel()


def _named(honest: Any) -> Any:
    def sum_moments(self: Any, ask: Any) -> Any:
        _Moments.site = self.name
        try:
            return honest(self, ask)
        finally:
            _Moments.site = ""

    return sum_moments

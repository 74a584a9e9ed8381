"""Robust means under secure sums: sites are drawn into groups, summed in each, and the groups' means compared.

The coordinator sees the mean of each group, and no site's own vector. A site that lies spoils one group's mean; with
more than twice as many groups as liars, the median over the groups lies among those of honest ones in each coordinate
(the median of means, as in Chen, Su and Xu 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.aggregation import Aggregation, GeometricMedian, Median
from fedgeom.protocols.secure_sum.groups import LEAST_GROUPS, GroupDraw

MOST_GROUPS = 500


@dataclass(frozen=True)
class GroupMedian(Aggregation):
    """The median over the means of groups of sites, each a secure sum: one liar spoils one group."""

    name: ClassVar[str] = "groups"
    sums_only: ClassVar[bool] = True

    groups: Annotated[int, Between(LEAST_GROUPS, MOST_GROUPS)] = 5
    """How many groups: more than twice as many as sites that may lie; each has as many sites as policies ask."""
    rule: Literal["median", "geometric"] = "median"
    """"median": of each coordinate; "geometric": the point with the least sum of distances to the groups' means."""
    drawn_by: Literal["sites", "seed"] = "sites"
    """"sites": by numbers that all sites commit to, so that nobody alone chooses; "seed": by the run's seed, the same
    groups in each run, which whoever chooses the seed can choose."""

    @property
    def draw(self) -> GroupDraw:
        """How the groups are drawn."""
        return GroupDraw(self.groups, self.drawn_by)

    def __call__(self, vectors: Floats, weights: Floats) -> Floats:
        """Return one vector of the groups' means, (groups, numbers); weights, (groups,), play no part."""
        if self.rule == "median":
            return Median()(vectors, weights)
        return GeometricMedian()(vectors, np.ones(len(vectors)))


def drawn(aggregation: object) -> GroupDraw | None:
    """Return how an aggregation draws groups; None: it has none."""
    return aggregation.draw if isinstance(aggregation, GroupMedian) else None


def group_places(draw: GroupDraw, names: Sequence[str], seed: int) -> list[list[int]]:
    """Return, for each group, the places of its sites among the names, for plain twins: they draw by the seed."""
    groups = GroupDraw(draw.count, "seed").groups(names, seed, b"")
    return [[names.index(name) for name in group] for group in groups]


def check_aggregation(rule: object, chosen: Aggregation, *, secure: bool | None, share: float) -> None:
    """Refuse an aggregation that does not go with a training rule's other settings."""
    kind = type(rule).__name__
    if secure and not chosen.sums_only:
        raise InputError(
            f"secure=True with aggregation={chosen.name!r}: that looks at each site's vector, which a secure sum "
            'hides; use aggregation="mean", GroupMedian(groups=…), or secure=False'
        )
    if chosen.by_pairs and not getattr(rule, "compares_updates", False):
        raise InputError(
            f"aggregation={chosen.name!r} weighs sites by how their changes lie to each other, which {kind} has nobody "
            'compute; use HyperFed, or aggregation="mean"'
        )
    if not isinstance(chosen, GroupMedian):
        return
    if not getattr(rule, "takes_groups", True):
        raise InputError(
            f'{kind} has ways of its own to put sites together, not GroupMedian; use aggregation="mean"'
        )
    if getattr(rule, "sums_rows_up", False) or getattr(rule, "calibration", False):
        raise InputError(f'{kind} adds up rows of all sites, of which there is no median; use aggregation="mean"')
    if secure is False:
        raise InputError(
            'secure=False with GroupMedian: groups hide sites in sums; for open vectors use aggregation="median"'
        )
    if share < 1:
        raise InputError(f"share={share} with GroupMedian: groups are of all sites; use share=1")

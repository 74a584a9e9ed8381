"""How sure the grouping of hulls is: how near each hull is to its class, and how near the next best grouping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats, Indices
from fedgeom.errors import ProtocolError
from fedgeom.federation.run_warnings import RunWarning
from fedgeom.methods.words import describe
from fedgeom.protocols.joining.last_call import remembers_last

DOUBTFUL = 0.85
"""From this ratio of the two distances on a hull's class is in doubt."""
MAX_POINTS = 5_000
"""Beyond this many corners in all hulls are compared by some, so that this takes a second at most."""
MOST_SHOWN = 5
"""How many doubtful hulls a warning describes; the others are counted."""
DIGITS = 4
"""Distances are told with so many decimals."""


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How near a hull is to the hulls of its class at other sites, and how near in the next best grouping."""

    own: float | None = None
    """The distance to its class; None: no other site has a hull in it. Together with the site's hulls that would have
    to move with it, as a root mean square."""
    rival: int = -1
    """Its class in the next best grouping; -1: there is none."""
    other: float | None = None
    """The distance then, of the same hulls."""

    @property
    def ratio(self) -> float | None:
        """The distance to its class as a share of that to the next best; None where one of them is missing."""
        if self.own is None or self.other is None:
            return None
        return self.own / self.other if self.other > 0 else math.inf

    @property
    def verdict(self) -> str:
        """Return "certain", "doubtful", or "alone": no other site's hull is in its class."""
        if self.own is None:
            return "alone"
        return "doubtful" if self.ratio is not None and self.ratio >= DOUBTFUL else "certain"

    @property
    def sound(self) -> bool:
        """Whether the numbers can be distances."""
        return all(one is None or 0 <= one < math.inf for one in (self.own, self.other))

    def told(self) -> dict[str, Any]:
        """Return the evidence as a site keeps it among its results."""
        return {"own": self.own, "rival": self.rival, "other": self.other, "verdict": self.verdict}

    def __str__(self) -> str:
        return describe(**self.told())


def group_evidence(hulls: Sequence[Floats], owners: ArrayLike, members: Indices, *, c: float) -> list[Evidence]:
    """Return for each hull how near its group is, and how near the next best one, given the site's other hulls.

    Each hull (corners, 2), f8; owners and members (hulls,). Distances are root mean squares of `hull_gaps`, also where
    hulls were grouped in the published way.
    """
    from fedgeom.methods.hulls.grouping import hull_gaps, thinned  # scikit-learn: 2 s

    return evidence_of_gaps(hull_gaps(thinned(list(hulls), MAX_POINTS), c=c), owners, members)


def evidence_of_gaps(gaps: Floats, owners: ArrayLike, members: Indices) -> list[Evidence]:
    """Return for each shape how near its group is, and how near the next best one, given the site's other shapes.

    The shapes of a site are of different classes, so one that is put elsewhere may push another one out. Hence the
    next best is the best way to give all shapes of the site to groups in which this one is not where it is; both ways
    are compared by the shapes that move.

    gaps (shapes, shapes), f8: squared distances; owners and members (shapes,).
    """
    owner = np.asarray(owners)
    groups, member = np.unique(members, return_inverse=True)
    in_group = np.eye(len(groups))[member]
    found = [Evidence()] * len(gaps)
    for site in np.unique(owner):
        mine = np.flatnonzero(owner == site)
        others = in_group * (owner != site)[:, None]
        size = others.sum(axis=0)
        costs = np.where(size > 0, gaps[mine] @ others / np.maximum(size, 1), np.inf)
        for at, one in enumerate(_site_evidence(costs, member[mine])):
            rival = -1 if one.rival < 0 else int(groups[one.rival])
            found[mine[at]] = msgspec.structs.replace(one, rival=rival)
    return found


def _site_evidence(costs: Floats, chosen: Indices) -> list[Evidence]:
    """Return the evidence for one site's hulls; groups are columns.

    costs (hulls, groups), f8: squared distances, infinite for groups that no other site has; chosen (hulls,).
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    rows = np.arange(len(chosen))
    known = np.isfinite(costs)
    large = 1.0 + costs[known].sum() if known.any() else 1.0  # more than any way that needs no unknown group
    now = costs[rows, chosen]
    found = []
    for hull in rows.tolist():
        if not known[hull, chosen[hull]]:
            found.append(Evidence())
            continue
        allowed = np.where(known, costs, large)
        stays = ~known[rows, chosen] & (rows != hull)  # what no other site has stays where it is
        allowed[stays] = len(rows) * large
        allowed[stays, chosen[stays]] = 0.0
        allowed[hull, chosen[hull]] = len(rows) * large
        other = linear_sum_assignment(allowed)[1] if costs.shape[1] > 1 else chosen
        moved = other != chosen
        after = costs[rows, other][moved]
        if not moved[hull] or not np.isfinite(after).all():
            found.append(Evidence(own=_distance(now[[hull]])))
        else:
            found.append(Evidence(own=_distance(now[moved]), rival=int(other[hull]), other=_distance(after)))
    return found


def _distance(squares: Floats) -> float:
    return round(float(np.sqrt(squares.mean())), DIGITS)


def doubts(members: Sequence[int], evidence: Sequence[Evidence], shapes: str = "hulls") -> list[RunWarning]:
    """Warn of shapes that might as well be of another class; whose they are, only the sites know."""
    doubtful = sorted(
        (
            (one.ratio or 0.0, group, one)
            for group, one in zip(members, evidence, strict=True)
            if one.verdict == "doubtful"
        ),
        key=lambda found: -found[0],
    )
    if not doubtful:
        return []
    shown = [f"one in class {group} ({one})" for _, group, one in doubtful[:MOST_SHOWN]]
    more = f"; and {len(doubtful) - MOST_SHOWN} more" if len(doubtful) > MOST_SHOWN else ""
    return [
        RunWarning(
            f"{len(doubtful)} of {len(evidence)} {shapes} might as well be of another class",
            "; ".join(shown) + more,
            'each site finds in its own result ("evidence") which of its names these are; where one word means one '
            'thing everywhere, say names = "shared"',
        )
    ]


@remembers_last  # the same for all sites of a process
def check_grouping(groups: tuple[int, ...], evidence: tuple[Evidence, ...], slots: int, classes: int) -> None:
    """Refuse a result that does not give each slot of all sites' blocks a class or none, and how near that is."""
    if len(groups) != slots or not all(-1 <= group < classes for group in groups):
        raise ProtocolError(f"the result must give each of {slots} slots a class or none")
    if len(evidence) != slots or not all(one.sound and one.rival < classes for one in evidence):
        raise ProtocolError(f"the result must say for each of {slots} slots how near its class is")

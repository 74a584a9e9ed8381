"""Grouping of anonymous hulls: which of the sites' hulls belong to the same class (Section 5.6).

Each hull is (corners, d), f8; distances and weights are (hulls, hulls), f8; owners and groups (hulls,). The
coordinator sees hulls, not labels, and which came from one site: these belong to different classes. No answer
depends on the hulls' order, except in the groups' names; `group` gives these a canonical order too.

``group_constrained`` is ours and the default. It gives a site's hulls to distinct groups by construction,
where the published way, a graph cut, only makes it likely; and it compares hulls by the gaps between their
outlines (`hull_gaps`), which tells apart neighbouring classes of different breadth better than Eq. 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from fedgeom.arrays import Floats, Indices
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.results import RunWarning
from fedgeom.geometry.hyperbolic.poincare import pairwise_distance
from fedgeom.geometry.hyperbolic.reference import NearestCorners, with_start_twice
from fedgeom.memo import memoize_last
from fedgeom.methods.label_names import describe

How = Literal["constrained", "spectral", "kernighan-lin", "published"]

# Point pairs whose distances are held at once (32 MB).
BLOCK = 1 << 22
# Beyond this many corners in all (400 million distances, some ten seconds) hulls are compared by some corners.
MAX_POINTS = 20_000
# How many sites' hulls are tried as the first members of the groups, and how often all sites are revisited.
STARTS = 8
SWEEPS = 50


def hull_distances(hulls: Sequence[Floats], *, c: float = 1.0, duplicate_start: bool = False) -> Floats:
    """Give the mean distance between the points of every two hulls, d_G(u, v) of Eq. 8; zero on the diagonal.

    ``duplicate_start`` counts the point farthest from the origin twice in hulls of more than three points,
    as the reference code does.
    """
    if duplicate_start:
        hulls = [with_start_twice(hull) for hull in hulls]
    sizes = np.array([len(hull) for hull in hulls])
    if len(sizes) == 0 or sizes.min() == 0:
        raise InputError("there must be at least one hull, and every hull needs at least one point")
    points = np.vstack(hulls)
    starts = np.r_[0, np.cumsum(sizes)]
    sums = np.zeros((len(hulls), len(hulls)))
    first = 0
    while first < len(hulls):
        # As many hulls as fit a block, against themselves and all later ones: the matrix is symmetric.
        width = int(starts[-1] - starts[first])
        last = int(np.searchsorted(starts, starts[first] + max(1, BLOCK // width), side="right")) - 1
        last = max(last, first + 1)
        block = pairwise_distance(points[starts[first] : starts[last]], points[starts[first] :], c=c)
        by_row = np.add.reduceat(block, starts[first:last] - starts[first], axis=0)
        sums[first:last, first:] = np.add.reduceat(by_row, starts[first:-1] - starts[first], axis=1)
        first = last
    upper = np.triu(sums / np.outer(sizes, sizes), k=1)
    return np.asarray(upper + upper.T)


def hull_gaps(hulls: Sequence[Floats], *, c: float = 1.0) -> Floats:
    """Give the mean squared distance from a corner of one hull to the nearest one of another, both ways averaged.

    Unlike Eq. 8 it is near zero for two hulls of the same outline, however large: a broad class is near itself.
    """
    sizes = np.array([len(hull) for hull in hulls])
    if len(sizes) == 0 or sizes.min() == 0:
        raise InputError("there must be at least one hull, and every hull needs at least one point")
    points = np.vstack(hulls)
    starts = np.r_[0, np.cumsum(sizes)]
    corners = NearestCorners(hulls, c=c)
    one_way = np.zeros((len(hulls), len(hulls)))
    first = 0
    while first < len(hulls):
        last = int(np.searchsorted(starts, starts[first] + max(1, BLOCK // (2 * len(hulls))), side="right")) - 1
        last = max(last, first + 1)
        nearest = (np.arcsinh(corners(points[starts[first] : starts[last]])) * (2.0 / np.sqrt(c))) ** 2
        one_way[first:last] = np.add.reduceat(nearest, starts[first:last] - starts[first], axis=0)
        first = last
    one_way /= sizes[:, None]
    return np.asarray((one_way + one_way.T) / 2)


def affinity_from_distances(
    distances: Floats, owners: ArrayLike | None = None, *, same_site: float = 0.01
) -> Floats:
    """Turn the distances of Eq. 8 into the edge weights 1/d_G of the graph of hulls (Section 5.6), 0 on the diagonal.

    Hulls that coincide get the weight 10/d, d being the smallest distance above zero. Hulls of one site get
    ``same_site`` times the smallest weight, which all but rules out that they share a group (Appendix I.2).
    """
    off_diagonal = ~np.eye(len(distances), dtype=bool)
    positive = distances[off_diagonal & (distances > 0)]
    nearest = float(positive.min()) if positive.size else 10.0
    with np.errstate(divide="ignore"):
        weights = np.where(distances > 0, 1.0 / distances, 10.0 / nearest)
    if owners is not None and len(distances) > 1:
        owner = np.asarray(owners)
        weights = np.where(owner[:, None] == owner[None, :], same_site * weights[off_diagonal].min(), weights)
    return np.where(off_diagonal, weights, 0.0)


def group_kernighan_lin(weights: Floats, seed: int = 0, *, slack: int = 0) -> Indices:
    """Cut the graph into two halves of least weight between them, Eq. 14, by the Kernighan–Lin heuristic.

    The halves have equal sizes. ``slack`` lets the sizes differ by up to that number, which is needed when
    sites lack a class: it adds nodes that are tied to nothing. An odd number of hulls has a slack of one.
    """
    import networkx as nx  # a quarter of a second

    n = len(weights)
    graph = nx.Graph()
    graph.add_nodes_from(range(n + slack + (n + slack) % 2))
    graph.add_weighted_edges_from(
        (u, v, float(weights[u, v])) for u in range(n) for v in range(u) if weights[u, v] > 0
    )
    _, other = nx.community.kernighan_lin_bisection(graph, weight="weight", seed=seed)
    return np.isin(np.arange(n), sorted(other)).astype(np.intp)


def group_spectral(weights: Floats, n_groups: int, seed: int | np.random.RandomState = 0) -> Indices:
    """Cut the graph into J groups by spectral clustering, as Appendices H and I.2 do; groups may be unequal."""
    n = len(weights)
    if n <= n_groups:
        return np.arange(n, dtype=np.intp)
    from sklearn.cluster import SpectralClustering  # scikit-learn: 2 s

    clustering = SpectralClustering(
        n_clusters=n_groups,
        affinity="precomputed",
        n_init=100,
        assign_labels="discretize",
        random_state=seed,
    )
    return np.asarray(clustering.fit_predict(weights), dtype=np.intp)


def group_constrained(distances: Floats, owners: ArrayLike, n_groups: int) -> Indices:
    """Assign hulls to J groups such that the hulls of one site are always in distinct groups.

    Beginning with the hulls of one site as the first members, every site in turn gives its hulls to the groups
    so that the sum of mean distances to the groups' other members is least (an assignment problem, solved
    exactly), until no site changes its mind. This is done from several sites, the ones with the most hulls first;
    the grouping with the least total spread wins. Sites may hold fewer than J hulls.
    """
    owner = np.asarray(owners)
    sites = [np.flatnonzero(owner == name) for name in dict.fromkeys(owner.tolist())]
    largest = max(len(site) for site in sites)
    if largest > n_groups:
        raise InputError(f"a site sent {largest} hulls, but there are only {n_groups} groups to tell apart")
    order = sorted(range(len(sites)), key=lambda s: -len(sites[s]))  # stable: listed order on ties
    best: tuple[float, Indices] | None = None
    for site in order[:STARTS]:
        seeds = _first_members(distances, sites[site], n_groups)
        member = _settle(distances, sites, distances[:, seeds], n_groups)
        spread = _spread(distances, member, n_groups)
        # A later start must be better by more than rounding, or equal groupings would compete.
        if best is None or spread < best[0] * (1 - 1e-12):
            best = (spread, member)
    assert best is not None
    return best[1]


def _first_members(distances: Floats, site: Indices, n_groups: int) -> list[int]:
    """Take a site's hulls, and if they are fewer than J, the hulls farthest from all taken so far."""
    seeds = [int(hull) for hull in site]
    while len(seeds) < min(n_groups, len(distances)):
        away = distances[:, seeds].min(axis=1)
        away[seeds] = -1.0
        seeds.append(int(np.argmax(away)))
    return seeds


def _settle(distances: Floats, sites: list[Indices], first_costs: Floats, n_groups: int) -> Indices:
    """Let sites reassign their hulls in turn until none changes, or the sweeps are used up."""
    member = np.empty(len(distances), dtype=np.intp)
    for site in sites:
        member[site] = linear_sum_assignment(first_costs[site])[1]
    one_hot = np.eye(n_groups)[member]
    totals = distances @ one_hot
    counts = one_hot.sum(axis=0)
    for _ in range(SWEEPS):
        changed = False
        for site in sites:
            own = np.eye(n_groups)[member[site]]
            others = counts - own.sum(axis=0)
            cost = (totals[site] - distances[np.ix_(site, site)] @ own) / np.maximum(others, 1)
            # A group with no other member takes any hull at no cost: some class may live at one site only.
            target = linear_sum_assignment(cost)[1].astype(np.intp)
            kept = cost[np.arange(len(site)), member[site]].sum()
            if cost[np.arange(len(site)), target].sum() >= kept * (1 - 1e-12):
                continue
            new = np.eye(n_groups)[target]
            totals += distances[:, site] @ (new - own)
            counts = others + new.sum(axis=0)
            member[site] = target
            changed = True
        if not changed:
            break
    return member


def _spread(distances: Floats, member: Indices, n_groups: int) -> float:
    """Sum, over the groups, the distances between members divided by the number of members."""
    one_hot = np.eye(n_groups)[member]
    within = np.einsum("ig,ij,jg->g", one_hot, distances, one_hot, optimize=True)
    return float(np.sum(within / np.maximum(one_hot.sum(axis=0), 1)))


def canonical_order(hulls: Sequence[Floats], owners: ArrayLike) -> Indices:
    """Sort hulls by their points, site by site, so that equal sets of sites are always listed alike."""
    keys = [tuple(map(tuple, np.unique(hull, axis=0).tolist())) for hull in hulls]
    owner = np.asarray(owners).tolist()
    by_site: dict[object, list[int]] = {}
    for index in sorted(range(len(hulls)), key=keys.__getitem__):
        by_site.setdefault(owner[index], []).append(index)
    sites = sorted(by_site.values(), key=lambda site: [keys[index] for index in site])
    return np.array([index for site in sites for index in site], dtype=np.intp)


def group(
    hulls: Sequence[Floats],
    owners: ArrayLike | None,
    n_groups: int,
    how: How = "constrained",
    seed: int | np.random.RandomState = 0,
    *,
    c: float = 1.0,
) -> Indices:
    """Group hulls into J classes; groups are numbered in the canonical order of their first hulls.

    ``owners`` tells which hulls are from one site (any labels; None when nothing is known). ``"published"`` is Eq. 14
    by Kernighan–Lin for two classes, whoever sent them, and spectral clustering for more, which keeps a site's hulls
    apart (I.2), with the reference code's doubled start points (slow with very many hulls).
    """
    if n_groups < 1:
        raise InputError(f"the number of groups must be positive, not {n_groups}")
    owner = np.arange(len(hulls)) if owners is None else np.asarray(owners)
    if owner.shape != (len(hulls),):
        raise InputError(f"there must be one owner per hull: {len(hulls)} hulls, owners of shape {owner.shape}")
    order = canonical_order(hulls, owner)
    owner = owner[order]
    published = how == "published"
    if published:
        how = "kernighan-lin" if n_groups == 2 else "spectral"
    listed = [hulls[i] for i in order]
    if how == "constrained":
        member = group_constrained(hull_gaps(thinned(listed), c=c), owner, n_groups)
        return _renumber(member, order)
    distances = hull_distances(listed, c=c, duplicate_start=published)
    if how == "spectral":
        member = group_spectral(affinity_from_distances(distances, owner), n_groups, seed)
    elif how == "kernighan-lin":
        if n_groups != 2:
            raise InputError(f"Kernighan–Lin cuts a graph in two; for {n_groups} groups use 'spectral'")
        missing = 2 * len(np.unique(owner)) - len(hulls)
        slack = missing if owners is not None else 0
        apart = None if published else owner
        member = group_kernighan_lin(affinity_from_distances(distances, apart), _int_seed(seed), slack=slack)
    else:
        raise InputError(f"how must be constrained, spectral, kernighan-lin or published, not {how!r}")
    return _renumber(member, order)


def _renumber(member: Indices, order: Indices) -> Indices:
    """Put the answers back into the caller's order, with groups numbered as they first occur in ours."""
    _, first, names = np.unique(member, return_index=True, return_inverse=True)
    result = np.empty(len(member), dtype=np.intp)
    result[order] = np.argsort(np.argsort(first))[names]
    return result


def thinned(hulls: list[Floats], points: int = MAX_POINTS) -> list[Floats]:
    """Keep so many evenly spaced corners of each hull that all together are not too many."""
    if sum(map(len, hulls)) <= points:
        return hulls
    most = max(3, points // len(hulls))
    kept = []
    for hull in hulls:
        around = hull[np.argsort(np.arctan2(*(hull - hull.mean(axis=0)).T[::-1]), kind="stable")]
        kept.append(around[np.linspace(0, len(hull), min(most, len(hull)), endpoint=False).astype(int)])
    return kept


def _int_seed(seed: int | np.random.RandomState) -> int:
    return seed if isinstance(seed, int) else int(seed.randint(2**31 - 1))


DOUBTFUL = 0.85
"""From this ratio of the two distances on a hull's class is in doubt."""
MAX_CONFIDENCE_POINTS = 5_000
"""Beyond this many corners in all hulls are compared by some, so that this takes a second at most."""
MOST_SHOWN = 5
"""How many doubtful hulls a warning describes; the others are counted."""
DIGITS = 4
"""Distances are told with so many decimals."""


class MatchEvidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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


def group_evidence(
    hulls: Sequence[Floats], owners: ArrayLike, members: Indices, *, c: float
) -> list[MatchEvidence]:
    """Return for each hull how near its group is, and how near the next best one, given the site's other hulls.

    Each hull (corners, 2), f8; owners and members (hulls,). Distances are root mean squares of `hull_gaps`, also where
    hulls were grouped in the published way.
    """

    return evidence_of_gaps(hull_gaps(thinned(list(hulls), MAX_CONFIDENCE_POINTS), c=c), owners, members)


def evidence_of_gaps(gaps: Floats, owners: ArrayLike, members: Indices) -> list[MatchEvidence]:
    """Return for each shape how near its group is, and how near the next best one, given the site's other shapes.

    The shapes of a site are of different classes, so one that is put elsewhere may push another one out. Hence the
    next best is the best way to give all shapes of the site to groups in which this one is not where it is; both ways
    are compared by the shapes that move.

    gaps (shapes, shapes), f8: squared distances; owners and members (shapes,).
    """
    owner = np.asarray(owners)
    groups, member = np.unique(members, return_inverse=True)
    in_group = np.eye(len(groups))[member]
    found = [MatchEvidence()] * len(gaps)
    for site in np.unique(owner):
        mine = np.flatnonzero(owner == site)
        others = in_group * (owner != site)[:, None]
        size = others.sum(axis=0)
        costs = np.where(size > 0, gaps[mine] @ others / np.maximum(size, 1), np.inf)
        for at, one in enumerate(_site_evidence(costs, member[mine])):
            rival = -1 if one.rival < 0 else int(groups[one.rival])
            found[mine[at]] = msgspec.structs.replace(one, rival=rival)
    return found


def _site_evidence(costs: Floats, chosen: Indices) -> list[MatchEvidence]:
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
            found.append(MatchEvidence())
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
            found.append(MatchEvidence(own=_distance(now[[hull]])))
        else:
            found.append(MatchEvidence(own=_distance(now[moved]), rival=int(other[hull]), other=_distance(after)))
    return found


def _distance(squares: Floats) -> float:
    return round(float(np.sqrt(squares.mean())), DIGITS)


def doubts(members: Sequence[int], evidence: Sequence[MatchEvidence], shapes: str = "hulls") -> list[RunWarning]:
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


@memoize_last  # the same for all sites of a process
def check_grouping(groups: tuple[int, ...], evidence: tuple[MatchEvidence, ...], slots: int, classes: int) -> None:
    """Refuse a result that does not give each slot of all sites' blocks a class or none, and how near that is."""
    if len(groups) != slots or not all(-1 <= group < classes for group in groups):
        raise ProtocolError(f"the result must give each of {slots} slots a class or none")
    if len(evidence) != slots or not all(one.sound and one.rival < classes for one in evidence):
        raise ProtocolError(f"the result must say for each of {slots} slots how near its class is")

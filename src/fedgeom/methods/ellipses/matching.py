"""Which of the sites' Gaussians are of one class, and the classifier that follows.

The coordinator sees Gaussians, not words, and which came from one site: these are of different classes. Importing this
takes two seconds, most of it scikit-learn: it is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Indices
from fedgeom.errors import InputError
from fedgeom.geometry.gaussians import Gaussians, bhattacharyya
from fedgeom.methods.ellipses.core import EllipseLayout, Received
from fedgeom.methods.ellipses.model import EllipseModel
from fedgeom.methods.ellipses.settings import EllipseSettings
from fedgeom.methods.hulls.matching import MatchEvidence, evidence_of_gaps, group_constrained

DRAWN = 200
"""How many points of a Gaussian are drawn to see what another site would call them."""
INSIDE = 0.5
"""A class is inside another site's if more than this share of its points would be called so."""
TOGETHER = 0.77
"""Classes make up one of another site if together they are nearer to it than this share of the nearest one's distance.
Chosen on splits of the T cells that papers/oneshot/names.py does not report."""
COMPARED = 12
"""With how many other sites, those with the most classes, each site is compared."""


def find_coarse(gaussians: Gaussians, owners: Indices, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Say which Gaussians are made of several of another site's, (k,).

    Covariances have inverses; owners (k,): whose each is.
    """
    sites = {site: np.flatnonzero(owners == site) for site in dict.fromkeys(owners.tolist())}
    largest = sorted(sites, key=lambda site: -len(sites[site]))  # stable: listed order on ties
    coarse = np.zeros(len(gaussians), bool)
    for site, mine in sites.items():
        ours = gaussians.take(mine)
        for other in [one for one in largest if one != site][:COMPARED]:
            theirs = gaussians.take(sites[other])
            called = calls(theirs, ours, rng)
            for at in range(len(mine)):
                inside = np.flatnonzero(called[:, at] > INSIDE)
                if len(inside) > 1 and _make_up(ours.take(np.array([at])), theirs.take(inside)):
                    coarse[mine[at]] = True
    return coarse


def calls(points_of: Gaussians, judges: Gaussians, rng: np.random.Generator) -> Floats:
    """Return which share of the first ones' points the second ones' owner would call what, (first, second)."""
    factors = np.linalg.cholesky(judges.covariances)
    level = np.log(judges.counts) - np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    found = np.empty((len(points_of), len(judges)))
    for at in range(len(points_of)):
        root = np.linalg.cholesky(points_of.covariances[at])
        points = points_of.means[at] + rng.standard_normal((DRAWN, len(root))) @ root.T
        gaps = points.T[None] - judges.means[:, :, None]
        scores = level[:, None] - 0.5 * (np.linalg.solve(factors, gaps) ** 2).sum(axis=1)
        found[at] = np.bincount(scores.argmax(axis=0), minlength=len(judges)) / DRAWN
    return found


def _make_up(whole: Gaussians, parts: Gaussians) -> bool:
    """Say whether parts together are clearly nearer to a Gaussian than the nearest of them."""
    together = parts.merged(np.zeros(len(parts), np.intp), 1)
    alone = bhattacharyya(whole, parts).min()
    return bool(bhattacharyya(whole, together)[0, 0] < TOGETHER * alone)


def settle(
    called: Indices, words: Sequence[str], rows: Sequence[str], known: dict[str, int], number: int
) -> dict[str, list[int]]:
    """Return which joint classes each of a site's words covers, as the site finds by itself from its own rows.

    called (n,): the joint class of each row by the joint model; rows: its word. ``known`` are words that mean one class
    each. Every other class goes to the word that most of the rows called so have; one that no row is
    called goes to none.
    """
    covers: dict[str, list[int]] = {word: [known[word]] for word in words if word in known}
    open_words = [word for word in words if word not in known]
    label = np.asarray(rows)
    taken = set(known.values())
    for group in range(number):
        if group in taken or not open_words:
            continue
        inside = label[called == group]
        counts = [int((inside == word).sum()) for word in open_words]
        if max(counts) > 0:
            covers.setdefault(open_words[int(np.argmax(counts))], []).append(group)
    return covers


def joint_tree(covers: Sequence[frozenset[int]]) -> list[tuple[int, ...]]:
    """Return the sets of joint classes that sites have a word for and that fit into one tree, largest first.

    Sets that many sites have come first; one that cuts another in two is left out. Single classes are leaves anyway.
    """
    times: dict[frozenset[int], int] = {}
    for one in covers:
        if len(one) > 1:
            times[one] = times.get(one, 0) + 1
    kept: list[frozenset[int]] = []
    for one in sorted(times, key=lambda found: (-times[found], -len(found), sorted(found))):
        if all(one <= other or other <= one or not one & other for other in kept):
            kept.append(one)
    return [tuple(sorted(one)) for one in sorted(kept, key=lambda found: (-len(found), sorted(found)))]


@dataclass(frozen=True, eq=False)
class Matched:
    """Which class every Gaussian is of."""

    slots: Indices
    """(classes of all sites,): the slot of each."""
    owners: Indices
    """(classes of all sites,): its block."""
    groups: Indices
    """(classes of all sites,): its joint class; -1: it is made of several."""
    evidence: tuple[MatchEvidence, ...]
    """How near its class and the next best one are; nothing with shared names, or of one that is made of several."""
    members: Indices
    """(Gaussians,): the joint class of each; -1 as in ``groups``."""
    number: int
    """How many joint classes there are."""


def match(received: Received, layout: EllipseLayout, settings: EllipseSettings, seed: int) -> Matched:
    """Put the Gaussians of all sites together to joint classes, each site's to distinct ones."""
    whole, slots, member = received.by_class(layout.components)
    owners = slots // layout.classes
    if settings.shared:
        words, groups = np.unique(slots % layout.classes, return_inverse=True)
        alone = (MatchEvidence(),) * len(slots)
        return Matched(slots, owners, groups, alone, groups[member], len(words))
    shrunk = whole.shrunk(received.within, settings.pull(layout.columns))
    fine = np.arange(len(slots), dtype=np.intp)
    if settings.mixed:
        fine = np.flatnonzero(~find_coarse(shrunk, owners, np.random.default_rng(seed)))
    gaps = bhattacharyya(shrunk.take(fine), shrunk.take(fine))
    gaps = (gaps + gaps.T) / 2  # equal but for rounding
    groups = np.full(len(slots), -1, np.intp)
    groups[fine] = _numbered(group_constrained(gaps, owners[fine], layout.classes), whole.take(fine))
    number = len(np.unique(groups[fine]))
    if number < layout.classes:
        raise InputError(
            f"the sites' Gaussians fall into {number} groups, but there should be {layout.classes} classes: some class "
            "is missing everywhere, too rare at every site, or n_classes is too large"
        )
    evidence = [MatchEvidence()] * len(slots)
    for at, one in zip(fine.tolist(), evidence_of_gaps(gaps, owners[fine], groups[fine]), strict=True):
        evidence[at] = one
    return Matched(slots, owners, groups, tuple(evidence), groups[member], number)


def _numbered(members: Indices, gaussians: Gaussians) -> Indices:
    """Number groups by their means, so that the numbers do not depend on who was listed first."""
    groups, member = np.unique(members, return_inverse=True)
    means = gaussians.merged(member, len(groups)).means
    ranks = np.empty(len(groups), np.intp)
    ranks[np.lexsort(means.T[::-1])] = np.arange(len(groups))
    return np.asarray(ranks[member])


def fit(
    received: Received, matched: Matched, layout: EllipseLayout, settings: EllipseSettings, scales: Floats | None
) -> EllipseModel:
    """Make the classifier: the Gaussians of a class together, component by component, with shrunk covariances."""
    parts: list[Gaussians] = []
    of_class: list[int] = []
    for group in range(matched.number):
        mine = np.flatnonzero(matched.members == group)
        components = _together(
            received.gaussians.take(mine), received.slots[mine] // layout.components, received, settings
        )
        parts.append(components)
        of_class += [group] * len(components)
    every = Gaussians(
        np.concatenate([one.counts for one in parts]),
        np.concatenate([one.means for one in parts]),
        np.concatenate([one.covariances for one in parts]),
    )
    rows = every.counts.sum()
    within = np.einsum("k,kij->ij", every.counts, every.covariances) / max(rows - len(every), 1.0)
    shrunk = every.shrunk(within, settings.pull(layout.columns))
    covariances = shrunk.covariances
    if settings.rule == "linear":
        one = Gaussians(np.ones(1), every.means[:1], np.zeros_like(within)[None]).shrunk(within, 1.0)
        covariances = np.repeat(one.covariances, len(every), axis=0)
    return EllipseModel(
        log_weights=np.log(every.counts / rows),
        means=every.means,
        covariances=covariances,
        groups=np.array(of_class, np.int64),
        classes=matched.number,
        curvature=settings.c,
        scales=scales,
    )


def _together(components: Gaussians, owners: Indices, received: Received, settings: EllipseSettings) -> Gaussians:
    """Merge one class's Gaussians of all sites: into one, or where sites have several, into as many as any has.

    owners (k,): which class of which site each is of.
    """
    most = int(np.unique(owners, return_counts=True)[1].max())
    if most == 1:
        return components.merged(np.zeros(len(components), np.intp), 1)
    shrunk = components.shrunk(received.within, settings.pull(components.means.shape[1]))
    gaps = bhattacharyya(shrunk, shrunk)
    members = group_constrained((gaps + gaps.T) / 2, owners, most)
    groups, member = np.unique(members, return_inverse=True)
    return components.merged(member, len(groups))


def named(model: EllipseModel, settings: EllipseSettings, words: Sequence[str], matched: Matched) -> EllipseModel:
    """Return the model with the shared words, those of which rows came; with own names, and no words, as it is."""
    made = replace(model, scaled=settings.site_scale)
    if not words:
        return made
    found = sorted({slot % len(words) for slot in matched.slots.tolist()})
    if len(found) < 2:
        raise InputError(f"Gaussians of {len(found)} classes came; a classifier needs two")
    return replace(made, names=tuple(words[at] for at in found))

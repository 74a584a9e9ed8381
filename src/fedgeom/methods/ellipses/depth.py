"""Names at different depth: which Gaussians are unions of others, and which words stand above which classes.

A class of one site is *coarse* if another site has several classes inside it that together are it. Inside: the other
site's class, as a Gaussian, would mostly be called so by this site. Together they are it: the Gaussian that they make
is nearer than each of them alone. Whether a site lacks a class or has a coarser word for it cannot be told from places
alone: a class that lies between others would be called one of them, but does not make that one broader.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Indices
from fedgeom.geometry.gaussians.bundles import Gaussians, bhattacharyya

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
    label, taken = np.asarray(rows), set(known.values())
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

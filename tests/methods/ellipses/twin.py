"""Gaussians of classes under the sites' own words, written down once more from docs/ellipses.md, in one place.

Nothing here knows how fedgeom does it: which Gaussians are of one class is found by trying all ways (fedgeom lets sites
choose in turn), densities are SciPy's, and whether a word is made of several is seen from many more points. Sites are
{name: (X, y)}.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations, product

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture


@dataclass(frozen=True, eq=False)
class Cloud:
    """Some rows: how many, of how many the covariance is known, mean and covariance (divided by n)."""

    n: float
    known: float
    mean: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True)
class Rules:
    """The settings; ``full``: rows for each column from which on a covariance is told."""

    shared: bool = False
    classes: int | None = None
    mixed: bool = False
    c: float | None = None
    scale: str = "joint"
    lumps: int = 1
    linear: bool = False
    shrinkage: float | None = None
    min_rows: int = 5
    full: float = 2.0


@dataclass(frozen=True)
class Found:
    """Gaussians, the class of each, the classes of the sites' words, and what takes a site's rows to vectors."""

    parts: list[Cloud]
    groups: list[int]
    names: dict[str, dict[str, int]]
    covers: dict[str, dict[str, list[int]]]
    vectors: object

    def scores(self, X, site):
        """Log density plus log prior of each class."""
        V = self.vectors(X, site)
        rows = sum(part.n for part in self.parts)
        each = [
            np.log(part.n / rows) + multivariate_normal(part.mean, part.covariance).logpdf(V)
            for part in self.parts
        ]
        classes = max(self.groups) + 1
        return np.column_stack(
            [
                logsumexp([one for one, group in zip(each, self.groups, strict=True) if group == k], axis=0)
                for k in range(classes)
            ]
        )


def tangent(X, c):
    """The vector at the ball's origin that points to x, half as long as the way there."""
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X / length * np.log((1 + np.sqrt(c) * length) / (1 - np.sqrt(c) * length)) / (2 * np.sqrt(c))


def together(clouds):
    """All rows of several clouds."""
    n = sum(one.n for one in clouds)
    mean = sum(one.n * one.mean for one in clouds) / n
    spread = sum(one.n * (one.covariance + np.outer(one.mean - mean, one.mean - mean)) for one in clouds) / n
    return Cloud(n, sum(one.known for one in clouds), mean, spread)


def cloud(V, enough):
    """A cloud of rows; of too few only variances are known."""
    spread = np.cov(V.T, ddof=0)
    if len(V) >= enough:
        return Cloud(len(V), len(V), V.mean(axis=0), spread)
    return Cloud(len(V), 0, V.mean(axis=0), np.diag(np.diag(spread)))


def completed(one, correlations):
    """What is not known of a covariance is as inside all classes."""
    deviations = np.sqrt(np.diag(one.covariance))
    missing = (1 - one.known / one.n) * np.outer(deviations, deviations) * (correlations - np.eye(len(deviations)))
    return Cloud(one.n, one.n, one.mean, one.covariance + missing)


def pulled(one, towards, rows):
    """A covariance with so many rows' worth of another one."""
    spread = (one.n * one.covariance + rows * towards) / (one.n - 1 + rows)
    return Cloud(one.n, one.known, one.mean, spread)


def apart(one, other):
    """The Bhattacharyya distance."""
    S = (one.covariance + other.covariance) / 2
    gap = one.mean - other.mean
    volumes = np.linalg.det(one.covariance) * np.linalg.det(other.covariance)
    return gap @ np.linalg.solve(S, gap) / 8 + np.log(np.linalg.det(S) / np.sqrt(volumes)) / 2


def matched(clouds, owners, classes):
    """The grouping with the least sum of distances inside groups; each owner's clouds are in different ones."""
    gaps = {pair: apart(clouds[pair[0]], clouds[pair[1]]) for pair in combinations(range(len(clouds)), 2)}
    mine = [[at for at, owner in enumerate(owners) if owner == one] for one in dict.fromkeys(owners)]
    first = max(range(len(mine)), key=lambda at: len(mine[at]))
    ways = [
        [tuple(range(len(some)))] if at == first else list(permutations(range(classes), len(some)))
        for at, some in enumerate(mine)
    ]

    def cost(way):
        place = {
            at: group for some, given in zip(mine, way, strict=True) for at, group in zip(some, given, strict=True)
        }
        return sum(gap for (one, other), gap in gaps.items() if place[one] == place[other])

    best = min(product(*ways), key=cost)
    return [
        dict(pair for some, given in zip(mine, best, strict=True) for pair in zip(some, given, strict=True))[at]
        for at in range(len(clouds))
    ]


def coarse(clouds, owners):
    """Which clouds another site has several inside of that together are nearer to it than any alone."""
    rng = np.random.default_rng(99)
    found = [False] * len(clouds)
    for at, mine in enumerate(clouds):
        judges = [one for one, owner in zip(clouds, owners, strict=True) if owner == owners[at]]
        for other in set(owners) - {owners[at]}:
            inside = []
            for one in (one for one, owner in zip(clouds, owners, strict=True) if owner == other):
                points = rng.multivariate_normal(one.mean, one.covariance, 3000)
                said = np.array(
                    [np.log(j.n) + multivariate_normal(j.mean, j.covariance).logpdf(points) for j in judges]
                )
                if (said.argmax(axis=0) == judges.index(mine)).mean() > 0.5:
                    inside.append(one)
            if len(inside) > 1 and apart(mine, together(inside)) < 0.77 * min(apart(mine, one) for one in inside):
                found[at] = True
    return found


def lumps_of(V, most, least):
    """Into which of several Gaussians rows fall: as many as the BIC wants, none of fewer rows."""
    best = np.zeros(len(V), int)
    score = np.inf
    for count in range(1, min(most, len(V) // least) + 1) if most > 1 else ():
        mixture = GaussianMixture(count, reg_covar=1e-6 * V.var(axis=0).mean(), random_state=0).fit(V)
        found = mixture.predict(V)
        if min((found == one).sum() for one in range(count)) >= least and mixture.bic(V) < score:
            best = found
            score = mixture.bic(V)
    return best


def fit(sites, rules):
    """Everything together; sites are in order of their names."""
    kept = {}
    for name in sorted(sites):
        X, y = sites[name]
        large = [word for word in sorted(set(y.tolist())) if (y == word).sum() >= rules.min_rows]
        kept[name] = (X[np.isin(y, large)], y[np.isin(y, large)])
    vectors = vectors_of(kept, rules)
    columns = next(iter(kept.values()))[0].shape[1]
    pull = columns + 1 if rules.shrinkage is None else rules.shrinkage
    pieces = []
    scatter = np.zeros((columns, columns))
    for name, (X, y) in kept.items():
        V = vectors(X, name)
        for word in sorted(set(y.tolist())):
            rows = V[y == word]
            lumps = lumps_of(rows, rules.lumps, rules.min_rows)
            for lump in sorted(set(lumps.tolist())):
                inside = rows[lumps == lump]
                scatter = scatter + np.cov(inside.T, ddof=0) * len(inside)
                pieces.append((name, word, cloud(inside, rules.full * columns)))
    within = scatter / sum(one.n for _, _, one in pieces)
    deviations = np.sqrt(np.diag(within))
    correlations = within / np.outer(deviations, deviations)
    if rules.shared and rules.lumps == 1:  # sites add up what they have of a word
        words = sorted({word for _, word, _ in pieces})
        pieces = [("", word, together([one for _, mine, one in pieces if mine == word])) for word in words]
    pieces = [(name, word, completed(one, correlations)) for name, word, one in pieces]
    group_of, classes = classes_of(pieces, within, pull, rules)
    parts = []
    groups = []
    for group in range(classes):
        mine = [(name, one) for name, word, one in pieces if group_of.get((name, word)) == group]
        for merged in merge(mine, within, pull):
            parts.append(merged)
            groups.append(group)
    inside = sum(one.n * one.covariance for one in parts) / (sum(one.n for one in parts) - len(parts))
    if rules.linear:
        parts = [Cloud(one.n, one.n, one.mean, inside) for one in parts]
    else:
        parts = [pulled(one, inside, pull) for one in parts]
    names = {name: {} for name in kept}
    for (name, word), group in group_of.items():
        for site in kept if rules.shared else [name]:
            if word in kept[site][1]:
                names[site][word] = group
    found = Found(parts, groups, names, {}, vectors)
    if rules.mixed:
        found.covers.update({name: covered(found, name, *kept[name]) for name in kept})
    return found


def vectors_of(kept, rules):
    """What takes a site's rows to vectors: the tangent space, or columns on a scale.

    The joint scale has the mean of all rows, and the sites' deviations averaged by rows.
    """
    if rules.c is not None:
        return lambda X, site: tangent(X, rules.c)
    if rules.scale == "none":
        return lambda X, site: X
    if rules.scale == "site":
        return lambda X, site: (X - kept[site][0].mean(axis=0)) / kept[site][0].std(axis=0)
    rows = [len(X) for X, _ in kept.values()]
    mean = np.average([X.mean(axis=0) for X, _ in kept.values()], axis=0, weights=rows)
    spread = np.average([X.std(axis=0) for X, _ in kept.values()], axis=0, weights=rows)
    return lambda X, site: (X - mean) / spread


def classes_of(pieces, within, pull, rules):
    """The joint class of each site's word (those made of several have none), and how many there are."""
    keys = list(dict.fromkeys((name, word) for name, word, _ in pieces))
    if rules.shared:
        words = sorted({word for _, word in keys})
        return {key: words.index(key[1]) for key in keys}, len(words)
    whole = [together([one for name, word, one in pieces if (name, word) == key]) for key in keys]
    clouds = [pulled(one, within, pull) for one in whole]
    owners = [name for name, _ in keys]
    fine = range(len(keys))
    if rules.mixed:
        fine = [at for at, found in enumerate(coarse(clouds, owners)) if not found]
    classes = rules.classes or max(owners.count(name) for name in owners)
    groups = matched([clouds[at] for at in fine], [owners[at] for at in fine], classes)
    means = {}
    for group in set(groups):
        inside = [whole[at] for at, one in zip(fine, groups, strict=True) if one == group]
        means[group] = tuple(together(inside).mean)
    order = sorted(means, key=means.get)
    return {keys[at]: order.index(group) for at, group in zip(fine, groups, strict=True)}, classes


def merge(mine, within, pull):
    """One class's clouds of all sites become one, or as many as any site has lumps."""
    owners = [name for name, _ in mine]
    most = max(owners.count(name) for name in owners)
    if most == 1:
        return [together([one for _, one in mine])]
    groups = matched([pulled(one, within, pull) for _, one in mine], owners, most)
    return [
        together([one for (_, one), at in zip(mine, groups, strict=True) if at == group])
        for group in dict.fromkeys(groups)
    ]


def covered(found, name, X, y):
    """Which classes each of a site's words stands for: its own, or those that its rows are mostly called."""
    called = found.scores(X, name).argmax(axis=1)
    own = found.names[name]
    words = {word: [group] for word, group in own.items()}
    others = [word for word in sorted(set(y.tolist())) if word not in own]
    for group in range(max(found.groups) + 1):
        counts = {word: ((called == group) & (y == word)).sum() for word in others}
        if group not in own.values() and others and max(counts.values()) > 0:
            words.setdefault(max(counts, key=counts.get), []).append(group)
    return words

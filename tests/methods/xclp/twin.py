"""Cross-client label propagation written down once more from its paper, in one place and in the clear.

Nothing here knows how fedgeom does it. Line numbers are those of Algorithm 1 in "Cross-Client Label Propagation for
Transductive and Semi-Supervised Federated Learning"; the inverse of line 10 is an inverse. The published program
departs from Algorithm 1 in three places (`CODE`); `OURS` and anchors are those of docs/xclp.md. Where all leave open
what happens: of equally similar rows the first are kept, negative similarities tie nobody, a row tied to nobody has
degree 1, and one that no label reaches gets no label, with confidence 0.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np


@dataclass(frozen=True)
class Rules:
    """How labels spread."""

    k: int
    alpha: float
    power: int = 1
    """The power of the cosines that are the weights."""
    own: bool = True
    """Whether a row is among its own k most similar, as it is in line 7 to the letter."""
    classes_sum_to_one: bool = False
    """Whether the labels of a class, of all sites together, weigh one."""
    prior: str | None = None
    """How a site finds its class shares: "em", "em-unchecked", "own" or "none"; None: it has no use for any."""
    code_confidence: bool = False
    """Whether confidences are scaled over all sites, as the published program does for training."""


PAPER = Rules(k=10, alpha=0.99)
CODE = Rules(k=10, alpha=0.99, power=3, own=False, classes_sum_to_one=True)
OURS = Rules(k=5, alpha=0.95, power=8, own=False, prior="em")


@dataclass(frozen=True)
class Clusters:
    """How anchors are found: at most so many, in so many steps, none of fewer rows or sites."""

    count: int
    steps: int
    least: int
    min_sites: int = 1
    nearest: int = 3
    """On how many anchors a row is written."""


@dataclass(frozen=True)
class Found:
    """What a site has at the end: a name for each row ("" for none), how sure it is, and the scores."""

    labels: list[str]
    confidences: np.ndarray
    scores: np.ndarray


def projection(seed, L, d, number=0):
    """Line 3: L Gaussian directions from a seed, the same wherever they are made; ``number``: others each time.

    SHA-256 of "fedgeom xclp <seed>" is 16 bytes of key and 16 bytes that count from above, both little-endian, for
    Philox. The upper 53 bits of each word are a place in (0, 1), whose quantile is the Gaussian.
    """
    secret = hashlib.sha256(f"fedgeom xclp {seed}".encode()).digest()
    key, above = (int.from_bytes(half, "little") for half in (secret[:16], secret[16:]))
    words = np.random.Philox(key=key, counter=(above ^ number) << 128).random_raw(L * d).tolist()
    normal = NormalDist()
    return np.array([normal.inv_cdf(((word >> 11) + 0.5) / 2**53) for word in words]).reshape(L, d)


def hash_rows(V, directions):
    """Line 4: on which side of every hyperplane a row lies."""
    return directions @ V.T >= 0


def hamming(B):
    """Line 5: in how many bits every two rows differ."""
    return np.array([(column[:, None] != B).sum(axis=0) for column in B.T])


def sparsify(A, rules):
    """Line 7: keep the k largest entries of each row."""
    B = np.zeros_like(A)
    for i, row in enumerate(A):
        others = [j for j in range(len(row)) if rules.own or j != i]
        kept = sorted(others, key=lambda j: (-row[j], j))[: rules.k]
        B[i, kept] = np.maximum(row[kept], 0) ** rules.power
    return B


def influence(H, L, rules):
    """Lines 6 to 10: from distances to the influence of every row on every other."""
    return influence_of(np.cos(np.pi / L * H), rules)


def influence_of(A, rules):
    """Lines 7 to 10, from cosines."""
    B = sparsify(A, rules)
    W = B + B.T
    degree = W.sum(axis=1)
    root = np.diag(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    return np.linalg.inv(np.eye(len(W)) - rules.alpha * root @ W @ root)


def confidence(z):
    """Line 16: one less the entropy of the scores, as a share of what it can be."""
    p = z / z.sum()
    p = p[p > 0]
    return 1 + (p @ np.log(p)) / np.log(len(z))


def read(Z, names):
    """Lines 15 and 16, for the rows of one site."""
    reached = Z.sum(axis=1) > 0
    labels = [names[z.argmax()] if hit else "" for z, hit in zip(Z, reached, strict=True)]
    return Found(labels, np.array([confidence(z) if hit else 0.0 for z, hit in zip(Z, reached, strict=True)]), Z)


def unturned(H, L, f):
    """How far apart rows were before each of their bits was turned with chance f, on average; from 0 to L.

    Two turned bits differ if they differed and none or both were turned, or if they did not and one was.
    """
    keeps = f * f + (1 - f) * (1 - f)
    return np.clip((H - (1 - keeps) * L) / (keeps - (1 - keeps)), 0, L)


def propagate(sites, rules, L, seed, names=None, distances=None):
    """Algorithm 1 over sites {name: (V, y)}, where y has "" for rows without a label; sites in order of their names."""
    V, y, names = pool(sites, names)
    if distances is None:
        distances = hamming(hash_rows(V, projection(seed, L, V.shape[1])))
    S = influence(distances, L, rules)
    Y = (y[:, None] == np.array(names)).astype(float)
    return finish(sites, S @ Y, rules, names)  # lines 12 to 14


def pool(sites, names=None):
    """All rows and labels, sites in order of their names, and the class names."""
    order = sorted(sites)
    y = np.concatenate([sites[name][1] for name in order])
    return np.vstack([sites[name][0] for name in order]), y, names or sorted(set(y.tolist()) - {""})


def finish(sites, Z, rules, names):
    """From propagated scores of all rows to what each site has."""
    _, y, _ = pool(sites, names)
    counts = (y[:, None] == np.array(names)).sum(axis=0)
    order = sorted(sites)
    ends = np.cumsum([len(sites[name][0]) for name in order])
    found = {}
    for name, part in zip(order, np.split(Z, ends[:-1]), strict=True):
        if rules.classes_sum_to_one or rules.prior:
            part = part / np.maximum(counts, 1)
        if rules.prior:
            own = (sites[name][1][:, None] == np.array(names)).sum(axis=0)
            part = with_prior(part, sites[name][1] == "", own, counts, rules.prior)
        found[name] = read(part, names)
    return scale_confidences(sites, found, names) if rules.code_confidence else found


# A site's class shares ("ours").


def shares(scores):
    """Rows that sum to one; rows of zeros stay."""
    total = scores.sum(axis=1, keepdims=True)
    return scores / np.where(total > 0, total, 1)


def base_shares(counts):
    """(1 - w)/C + w·n_c/N with w = max(0, 1 - (C - 1)/χ²), χ² of the counts against equal ones."""
    C = len(counts)
    even = counts.sum() / C
    chi = ((counts - even) ** 2 / even).sum()
    w = max(0.0, 1 - (C - 1) / chi) if chi > 0 else 0.0
    return (1 - w) / C + w * counts / counts.sum()


def estimated(evidence, base, own):
    """One step of expectation maximisation, from the site's labels and two more rows that are like the base."""
    fixed = own + 2 * base
    chances = shares(evidence * fixed / fixed.sum())
    total = chances.sum(axis=0) + fixed
    return total / total.sum()


def gain(own, prior, base):
    """By how much labels are likelier with one than with the other (logarithms)."""
    return sum(n * np.log(p / b) for n, p, b in zip(own, prior, base, strict=True) if n)


def with_prior(scores, unlabelled, own, counts, kind):
    """evidence²·base·(prior/base)^weight, where the site's rows and labels bear its prior out."""
    base = base_shares(counts)
    squared = shares(scores) ** 2
    evidence = squared[unlabelled & (squared.sum(axis=1) > 0)]
    prior = base
    weight = 0.0
    if kind == "own":
        prior = (own + 2 * base) / (own.sum() + 2)
        evidence = evidence[:0]
    elif kind != "none":
        first = estimated(evidence, base, 0 * own)
        borne_out = gain(own, first, base) >= 0.2 * own.sum() if own.any() else kind == "em-unchecked"
        prior = estimated(evidence, base, own) if borne_out else base
    likelier = 2 * np.log((evidence @ prior) / (evidence @ base)).sum() + 2 * gain(own, prior, base)
    if likelier > 0:
        weight = max(0.0, 1 - (2 * (len(base) - 1) + 0.2 * (len(evidence) + own.sum())) / likelier)
    return shares(squared * base * (prior / base) ** weight)


# Confidences as the published program scales them.


def scale_confidences(sites, found, names):
    """By the largest of all sites, up to 1/4096, and by n/(C·n_c); rows with a label keep it and have 1."""
    top = np.ceil(4096 * max(one.confidences.max() for one in found.values())) / 4096
    kept = {
        name: [mine or label for mine, label in zip(sites[name][1].tolist(), one.labels, strict=True)]
        for name, one in found.items()
    }
    sizes = {word: sum(labels.count(word) for labels in kept.values()) for word in names}
    every = sum(sizes.values())
    done = {}
    for name, one in found.items():
        weights = []
        for mine, label, sure in zip(sites[name][1].tolist(), one.labels, one.confidences, strict=True):
            if mine:
                weights.append(1.0)
            elif not label or not sizes[label]:
                weights.append(0.0)
            else:
                weights.append(min(sure / top, 1) * every / (len(names) * sizes[label]))
        done[name] = Found(kept[name], np.array(weights), one.scores)
    return done


# Anchors.


def unit(X):
    """Rows of length one; rows of zeros stay."""
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(length > 0, length, 1)


def large_enough(cells, owners, count, how):
    """The cells with enough rows of enough sites; where none has enough rows and sites do not matter, the fullest."""
    sizes = [(cells == cell).sum() for cell in range(count)]
    among = [len(set(owners[cells == cell])) for cell in range(count)]
    kept = [cell for cell in range(count) if sizes[cell] >= how.least and among[cell] >= how.min_sites]
    return kept or [int(np.argmax(sizes))]


def find_anchors(sites, how, seed):
    """Spherical k-means of all unit rows: from few regions, whose widest are split until there are enough."""
    V, _, _ = pool(sites)
    V = unit(V)
    owners = np.concatenate([[name] * len(sites[name][0]) for name in sorted(sites)])
    first = projection(seed, min(how.count, 32), V.shape[1])
    cells = ((V - V.mean(axis=0)) @ first.T).argmax(axis=1)
    kept = large_enough(cells, owners, len(first), how)
    for step in range(how.steps):
        members = [V[cells == cell] for cell in kept]
        lengths = np.array([np.linalg.norm(rows.sum(axis=0)) for rows in members])
        counts = np.array([len(rows) for rows in members])
        anchors = unit(np.array([rows.sum(axis=0) for rows in members]))
        if step == how.steps - 1:
            break
        anchors = split_widest(anchors, lengths, counts, how, projection_of(seed, step, anchors, how))
        nearest = (V @ anchors.T).argmax(axis=1)
        anchors = anchors[large_enough(nearest, owners, len(anchors), how)]
        cells = (V @ anchors.T).argmax(axis=1)
        kept = range(len(anchors))
    return anchors


def projection_of(seed, step, anchors, how):
    """Random mixtures of the anchors, one for each cell that is split."""
    splits = min(how.count - len(anchors), len(anchors))
    return projection(seed, splits, len(anchors), step + 1) if splits > 0 else np.zeros((0, len(anchors)))


def split_widest(anchors, lengths, counts, how, mixtures):
    """Cells of which most is lost in the sum, n - |Σ|, become two, on either side along a random direction."""
    widest = sorted(range(len(anchors)), key=lambda cell: (lengths[cell] - counts[cell], cell))[: len(mixtures)]
    made = list(anchors)
    middle = anchors.mean(axis=0)
    for cell, mixture in zip(widest, mixtures, strict=True):
        along = mixture @ (anchors - middle)
        wide = np.sqrt(max(1 - (lengths[cell] / counts[cell]) ** 2, 1e-6))
        way = wide / 2 * along / np.linalg.norm(along)
        made[cell] = (anchors[cell] + way) / np.linalg.norm(anchors[cell] + way)
        made.append((anchors[cell] - way) / np.linalg.norm(anchors[cell] - way))
    return np.array(made)


def written_on(V, anchors, nearest):
    """Each row as cos¹⁶ on its few nearest anchors, which sum to one."""
    Z = np.zeros((len(V), len(anchors)))
    for i, cosines in enumerate(unit(V) @ anchors.T):
        for j in np.argsort(-cosines)[:nearest]:
            Z[i, j] = max(cosines[j], 0) ** 16
    return shares(Z)


def propagate_by_anchors(sites, rules, how, seed, names=None):
    """Rows are neighbours as far as they share anchors, W = ZΛ⁻¹Zᵀ; returns what sites have, and scores of new rows."""
    V, y, names = pool(sites, names)
    anchors = find_anchors(sites, how, seed)
    Z = written_on(V, anchors, how.nearest)
    used = Z.sum(axis=0)
    back = Z / np.where(used > 0, used, 1)
    Y = (y[:, None] == np.array(names)).astype(float)
    F = np.linalg.inv(np.eye(len(V)) - rules.alpha * back @ Z.T) @ Y
    return finish(
        sites, F, rules, names
    ), lambda new: rules.alpha * written_on(new, anchors, how.nearest) @ back.T @ F

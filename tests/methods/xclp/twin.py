"""Cross-client label propagation written down once more from its paper, in one place and in the clear.

Nothing here knows how fedgeom does it. Line numbers are those of Algorithm 1 in "Cross-Client Label Propagation for
Transductive and Semi-Supervised Federated Learning"; the inverse of line 10 is an inverse. The published program
departs from Algorithm 1 in three places (`CODE`). Where both leave open what happens: of equally similar rows the
first are kept, negative similarities tie nobody, a row tied to nobody has degree 1, and one that no label reaches
gets no label, with confidence 0.
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


PAPER = Rules(k=10, alpha=0.99)
CODE = Rules(k=10, alpha=0.99, power=3, own=False, classes_sum_to_one=True)


@dataclass(frozen=True)
class Found:
    """What a site has at the end: a name for each row ("" for none), how sure it is, and the scores."""

    labels: list[str]
    confidences: np.ndarray
    scores: np.ndarray


def projection(seed, L, d):
    """Line 3: L Gaussian directions from a seed, the same wherever they are made.

    SHA-256 of "fedgeom xclp <seed>" is 16 bytes of key and 16 bytes that count from above, both little-endian, for
    Philox. The upper 53 bits of each word are a place in (0, 1), whose quantile is the Gaussian.
    """
    secret = hashlib.sha256(f"fedgeom xclp {seed}".encode()).digest()
    key, above = (int.from_bytes(half, "little") for half in (secret[:16], secret[16:]))
    words = np.random.Philox(key=key, counter=above << 128).random_raw(L * d).tolist()
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
    A = np.cos(np.pi / L * H)
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


def propagate(sites, rules, L, seed):
    """Algorithm 1 over sites {name: (V, y)}, where y has "" for rows without a label; sites in order of their names."""
    order = sorted(sites)
    V = np.vstack([sites[name][0] for name in order])
    y = np.concatenate([sites[name][1] for name in order])
    names = sorted(set(y.tolist()) - {""})
    Y = (y[:, None] == np.array(names)).astype(float)
    S = influence(hamming(hash_rows(V, projection(seed, L, V.shape[1]))), L, rules)
    labelled = y != ""
    Z = S[:, labelled] @ Y[labelled]  # lines 12 to 14
    if rules.classes_sum_to_one:
        Z = Z / Y.sum(axis=0)
    ends = np.cumsum([len(sites[name][0]) for name in order])
    return {name: read(part, names) for name, part in zip(order, np.split(Z, ends[:-1]), strict=True)}

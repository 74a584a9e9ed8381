"""Images dealt to sites by Dirichlet's law, and what each site holds out: the data of the tables and pictures here."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

import fedgeom
from papers.common import Ints
from papers.images import Bytes, cifar10, fashion_mnist

IMAGES, SITES, FEWEST = 6000, 20, 20


class Split(NamedTuple):
    """Images at sites, with those that each site holds out, and the official test images."""

    sites: list[fedgeom.SiteData]
    held: dict[str, tuple[Bytes, Ints]]
    """A quarter of each site's images, (rows, pixels), and their classes."""
    X: Bytes
    """The official test images, (rows, pixels)."""
    y: Ints
    shape: tuple[int, int, int]
    """What a row is: channels, height, width."""


@cache
def images(name: str, coarse: bool) -> tuple[Bytes, Ints, Bytes, Ints]:
    """Return training and test images, (rows, channels, height, width), with their classes; coarse: 2 × 2 pooled."""
    load = fashion_mnist if name == "fashion-mnist" else cifar10
    (X, y), (X_test, y_test) = ((np.moveaxis(one, -1, 1), of) for one, of in (load("train"), load("test")))
    if coarse:
        X, X_test = pooled(X), pooled(X_test)
    return X, y, X_test, y_test


def pooled(X: Bytes) -> Bytes:
    """Return images, (rows, channels, side, side), with every 2 × 2 pixels made one."""
    rows, channels, side, _ = X.shape
    blocks = X.reshape(rows, channels, side // 2, 2, side // 2, 2).astype(np.uint16)
    return ((blocks.sum(axis=(3, 5)) + 2) // 4).astype(np.uint8)


def owners(y: Ints, sites: int, alpha: float, rng: np.random.Generator, fewest: int = FEWEST) -> Ints:
    """Return the site of each row, (rows,): each class dealt by Dirichlet's law, until no site has too few."""
    owner = np.empty(len(y), np.int64)
    while True:
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            cuts = np.floor(np.cumsum(rng.dirichlet(np.full(sites, alpha))) * len(rows)).astype(int)
            owner[rows] = np.searchsorted(cuts[:-1], np.arange(len(rows)), side="right")
        if np.bincount(owner, minlength=sites).min() >= fewest:
            return owner


def draw(
    name: str, alpha: float, seed: int, *, coarse: bool = False, rows: int = IMAGES, sites: int = SITES
) -> Split:
    """Draw images and deal them to sites, each of which holds a quarter out."""
    X, y, X_test, y_test = images(name, coarse)
    rng = np.random.default_rng([seed, round(1000 * alpha)])
    taken = rng.permutation(len(X))[:rows]
    rows, flat, labels = len(taken), X[taken].reshape(len(taken), -1), y[taken]
    owner = owners(labels, sites, alpha, rng, min(FEWEST, rows // (2 * sites)))
    parts, held = [], {}
    for at in range(sites):
        own = rng.permutation(np.flatnonzero(owner == at))
        out, kept = own[: len(own) // 4], own[len(own) // 4 :]
        site = f"site-{at:03d}"
        parts.append(fedgeom.SiteData(site, flat[kept], labels[kept]))
        held[site] = (flat[out], labels[out])
    return Split(parts, held, X_test.reshape(len(X_test), -1), y_test, X.shape[1:])  # type: ignore[arg-type]

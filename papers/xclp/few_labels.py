"""The sets of `semi.py`: few rows have a label, others are held out to test on."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import fedgeom
from papers.common import Floats, Ints, Labels, load_data
from papers.images import cifar10, fashion_mnist, filtered


class Task(NamedTuple):
    """One set with one seed."""

    sites: list[fedgeom.SiteData]
    """Rows without a label have ""."""
    X: Floats
    y: Labels


def _site(at: int, X: Any, y: Labels, shown: Any) -> fedgeom.SiteData:
    return fedgeom.SiteData(f"site {at:03d}", X, np.where(shown, y.astype(str), ""))


def t_cells(seed: int) -> Task:
    """Take 1,200 cells of each hospital; a quarter is tested on, 1 % of the others have a label."""
    with load_data("hipc_tcell_5hospitals.npz") as file:
        X, y, site = file["X"].astype(np.float64), file["class_names"][file["y"]].astype(str), file["site"]
    rng, sites, held = np.random.default_rng(seed), [], []
    for at in np.unique(site):
        rows = rng.permutation(np.flatnonzero(site == at))[:1200]
        held.append(rows[:300])
        sites.append(_site(int(at), X[rows[300:]], y[rows[300:]], np.arange(900) < 9))
    out = np.concatenate(held)
    return Task(sites, X[out], y[out])


def deal(y: Ints, kind: str, sites: int, rng: np.random.Generator) -> list[Ints]:
    """Deal rows to sites: at random, or sorted by class in two pieces a site."""
    order = rng.permutation(len(y))
    if kind == "iid":
        return np.array_split(order, sites)
    pieces = np.array_split(order[np.argsort(y[order], kind="stable")], 2 * sites)
    drawn = rng.permutation(2 * sites)
    return [np.concatenate([pieces[one], pieces[other]]) for one, other in drawn.reshape(sites, 2)]


def fashion(kind: str, seed: int) -> Task:
    """Deal 3,000 images to ten sites; twenty of each site have labels, and all test images are tested on."""
    (X, y), (test, wanted), rng = fashion_mnist("train"), fashion_mnist("test"), np.random.default_rng(seed)
    rows = rng.permutation(len(y))[:3000]
    X, y = X[rows].reshape(3000, -1), y[rows]
    sites = []
    for at, own in enumerate(deal(y, kind, 10, rng)):
        mixed = rng.permutation(own)
        sites.append(_site(at, X[mixed], y[mixed], np.arange(len(mixed)) < 20))
    return Task(sites, test.reshape(len(test), -1), wanted)


@lru_cache(maxsize=2)
def filtered_cifar10(part: str) -> tuple[Any, Ints]:
    """Return what fixed filters make of the images of "train" or "test", and their classes."""
    images, y = cifar10(part)
    return filtered(images), y


def cifar(labels: int, kind: str, seed: int) -> Task:
    """Take the authors' split with the seed's number."""
    (X, y), (test, wanted) = filtered_cifar10("train"), filtered_cifar10("test")
    with load_data("xclp_cifar10_splits.npz") as file:
        how = "iid0" if kind == "iid" else f"noniid{kind[0]}"
        at = file["name"].tolist().index(f"{labels}_labels_100_labelled_clients_{how}_split{seed}")
        client, shown = file["client"][at], np.unpackbits(file["labelled"], axis=1)[at, :50000].astype(bool)
    sites = [
        _site(number, X[client == number], y[client == number], shown[client == number]) for number in range(100)
    ]
    return Task(sites, test, wanted)


def draw(name: str, seed: int) -> Task:
    """Return a set with a seed."""
    first, _, kind = name.partition(" ")
    if first == "cifar":
        labels, _, kind = kind.partition(" ")
        return cifar(int(labels), kind, seed)
    return t_cells(seed) if first == "t-cells" else fashion(kind, seed)

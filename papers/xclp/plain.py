"""Cross-client label propagation on pooled data: Algorithm 1 in a few lines, without cryptography."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.geometry.graphs import anchors as anchored
from fedgeom.geometry.graphs.knn import Block, attach, degrees, knn_graph, normalise
from fedgeom.geometry.graphs.lsh import ByteSource, cosine_from_hamming, debias, flip_bits, hamming, hash_bits
from fedgeom.geometry.graphs.propagation import extend, propagate
from fedgeom.methods.xclp.core import (
    Labelled,
    Prior,
    Setting,
    Variant,
    at_site,
    code_confidence,
    confidence_level,
    finish,
    is_labelled,
    keep_known,
    label_numbers,
    label_text,
    one_hot,
    setting_for,
    shared_seed,
)
from fedgeom.methods.xclp.settings import XclpSettings

_TILE = 2048


@dataclass(frozen=True)
class PlainXCLP:
    """The outcome, and what is needed to label rows that come later."""

    names: tuple[Any, ...]
    sites: tuple[Labelled, ...]
    setting: Setting
    seed: bytes
    L: int
    counts: Floats
    """(classes,)"""
    Z: Floats
    """(rows of all sites, classes): the propagated scores of all rows, before any division."""
    bits: NDArray[np.uint8] | None
    """(rows of all sites, L/8)"""
    degrees: Floats | None
    """(rows of all sites,)"""
    anchors: Floats | None
    """(anchors, columns)"""
    anchor_scores: Floats | None
    """(anchors, classes)"""
    m: int
    rate: float
    joint: tuple[int, Floats] | None = None
    """With ``confidence="code"``: the largest confidence in steps of 1/4096, and how many rows got each label."""

    def labels(self, site: int) -> NDArray[Any]:
        """Return a site's labels by name, None where it abstains."""
        named = np.array([*self.names, None], object)
        return np.asarray(named[self.sites[site].codes])

    def predict(self, X: ArrayLike, site: int) -> Labelled:
        """Label rows that came to a site after the run; nothing about the old rows is computed again.

        Pairs: new rows hang on to their nearest old ones. Anchors: the site needs nothing but the anchors' scores.
        """
        if self.anchors is not None and self.anchor_scores is not None:
            Z = anchored.codes(X, self.anchors, self.m) @ self.anchor_scores
        else:
            assert self.bits is not None
            assert self.degrees is not None
            new = hash_bits(X, self.seed, self.L)
            cosine = cosine_from_hamming(_distances(new, self.bits, self.L, self.rate, both=False), self.L)
            weights = attach(cosine, self.degrees, self.setting.k, power=self.setting.power)
            Z = extend(weights, self.setting.alpha, self.Z)
        found = finish(np.asarray(Z), self.setting, self.counts, self.sites[site].prior)
        return rescale_confidence(found, self.joint, np.full(len(found.codes), -1))


def plain_of(
    settings: XclpSettings, sites: Sequence[tuple[ArrayLike, ArrayLike]], classes: Sequence[Any] | None, seed: int
) -> PlainXCLP:
    """Label the rows of all sites' (X, y) by a method's settings."""
    return plain(
        sites,
        variant=settings.variant,
        graph=settings.graph,
        L=settings.hash_bits,
        k=settings.n_neighbors,
        alpha=settings.alpha,
        prior=settings.prior,
        confidence=settings.confidence,
        classes=classes,
        seed=seed,
        flip_rate=settings.flip_probability,
        anchors=settings.n_anchors,
        m=settings.n_nearest,
        rounds=settings.n_rounds,
        least=settings.min_cell,
    )


def rescale_confidence(found: Labelled, joint: tuple[int, Floats] | None, known: Ints) -> Labelled:
    """Label and weigh rows as the reference code does, by the largest confidence of all sites and the labels' counts.

    joint: a number and (classes,), f8; None: rows stay as they are. known (rows,): the label of those that have one,
    which they keep, else -1.
    """
    if joint is None:
        return found
    confidence = code_confidence(found.scores, *joint, known)
    return replace(found, codes=keep_known(found.codes, known), confidence=confidence)


def plain(
    sites: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    variant: Variant = "ours",
    graph: Literal["pairs", "anchors"] = "pairs",
    L: int = 4096,
    k: int | None = None,
    alpha: float | None = None,
    prior: Prior = "em",
    confidence: Literal["entropy", "code"] = "entropy",
    classes: Sequence[Any] | None = None,
    seed: bytes | int = 0,
    flip_rate: float = 0.0,
    rng: ByteSource | None = None,
    anchors: int = 300,
    m: int = 3,
    rounds: int = 10,
    least: int = 5,
) -> PlainXCLP:
    """Label the rows of all sites' (X, y); -1, None or NaN in y means that a row has no label.

    ``L`` is the number of hash bits; ``k`` and ``alpha`` replace the variant's; ``prior`` matters to "ours" only;
    ``confidence="code"`` scales confidences as the reference code does (`code_confidence`);
    ``flip_rate`` is the share of hash bits that sites turn at random, from ``rng``. With ``graph="anchors"`` there
    are at most ``anchors`` of them, ``m`` in a point's code, from ``rounds`` rounds of spherical k-means with at
    least ``least`` points in a cell.
    """
    setting = setting_for(variant, k, alpha)
    if confidence not in ("entropy", "code"):
        raise InputError(f'confidence={confidence!r} is unknown; wanted "entropy" or "code"')
    tables, names, codes = _tables(sites, classes)
    shared = shared_seed(seed)
    Y = one_hot(np.concatenate(codes), len(names))
    counts = Y.sum(axis=0)
    bits = degree = places = scores = None

    if graph == "pairs":
        bits = _hashes(tables, shared, L, flip_rate, rng)  # lines 3 and 4
        tiles = _tiles(bits, L, flip_rate)  # lines 5 and 6
        W = knn_graph(tiles, setting.k, n=len(bits), power=setting.power, self_loops=setting.self_loops)
        degree = degrees(W)
        Z = propagate(normalise(W), setting.alpha, Y)  # lines 9 to 14
    elif graph == "anchors":
        places = anchored.fit_anchors(tables, anchors, shared, rounds=rounds, least=least)
        code = [anchored.codes(X, places, m) for X in tables]
        ZtZ = np.sum([(z.T @ z).toarray() for z in code], axis=0)
        ZtY = np.sum([z.T @ one_hot(y, len(names)) for z, y in zip(code, codes, strict=True)], axis=0)
        scores = anchored.anchor_scores(ZtZ, ZtY, setting.alpha)
        Z = Y + sp.vstack(code) @ scores
    else:
        raise InputError(f'graph={graph!r} is unknown; wanted "pairs" or "anchors"')

    ends = np.cumsum([len(y) for y in codes])
    parts = zip(np.split(Z, ends[:-1]), codes, strict=True)
    found = [at_site(part, y, setting, counts, prior) for part, y in parts]  # lines 15 and 16, at each site
    joint = _joint_numbers(found, codes, len(names)) if confidence == "code" else None
    done = tuple(rescale_confidence(site, joint, y) for site, y in zip(found, codes, strict=True))
    return PlainXCLP(names, done, setting, shared, L, counts, Z, bits, degree, places, scores, m, flip_rate, joint)


def _joint_numbers(found: Sequence[Labelled], known: Sequence[Ints], classes: int) -> tuple[int, Floats]:
    """Return the level of the surest row of all sites, and how many rows have each label, own ones kept."""
    kept = [keep_known(site.codes, y) for site, y in zip(found, known, strict=True)]
    sizes = np.sum([one_hot(one, classes).sum(axis=0) for one in kept], axis=0)
    return max(confidence_level(site.confidence) for site in found), sizes


def _tables(
    sites: Sequence[tuple[ArrayLike, ArrayLike]], classes: Sequence[Any] | None
) -> tuple[list[Floats], tuple[Any, ...], list[Ints]]:
    """Return the sites' rows, the class names, and each row's class number; refuse tables that do not fit together."""
    tables = [np.asarray(X, np.float64) for X, _ in sites]
    names = _names([y for _, y in sites]) if classes is None else tuple(classes)
    codes = [label_numbers(y, names) for _, y in sites]
    for i, (X, y) in enumerate(zip(tables, codes, strict=True)):
        if X.ndim != 2 or len(X) != len(y) or X.shape[1] != tables[0].shape[1]:
            raise InputError(
                f"site {i}: X has shape {X.shape}, {len(y)} labels; wanted a row each, the same columns"
            )
    return tables, names, codes


def _hashes(
    tables: Sequence[Floats], seed: bytes, L: int, rate: float, rng: ByteSource | None
) -> NDArray[np.uint8]:
    """Hash all rows, and turn a share of the bits at random."""
    bits = np.vstack([hash_bits(X, seed, L) for X in tables])
    if not rate:
        return bits
    return flip_bits(bits, rate, np.random.default_rng(int.from_bytes(seed, "little")) if rng is None else rng)


def per_client(
    sites: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    variant: Variant = "ours",
    k: int | None = None,
    alpha: float | None = None,
    classes: Sequence[Any] | None = None,
    prior: Prior = "none",
) -> list[Labelled]:
    """Label every site's rows from its own labels only: the baseline that needs no federation.

    Cosines are exact here, since nothing has to be hidden. A site without labels abstains everywhere.
    """
    setting = setting_for(variant, k, alpha)
    names = _names([y for _, y in sites]) if classes is None else tuple(classes)
    found = []
    for X, given in sites:
        rows, y = anchored.unit_rows(X), label_numbers(given, names)
        Y = one_hot(y, len(names))
        counts = Y.sum(axis=0)
        if not len(y):
            Z = np.zeros((0, len(names)))
        else:
            W = knn_graph(rows @ rows.T, setting.k, power=setting.power, self_loops=setting.self_loops)
            Z = propagate(normalise(W), setting.alpha, Y)
        found.append(at_site(Z, y, setting, counts, prior))
    return found


def _tiles(bits: NDArray[np.uint8], L: int, rate: float) -> Iterator[Block]:
    for i in range(0, len(bits), _TILE):
        for j in range(i, len(bits), _TILE):
            H = _distances(bits[i : i + _TILE], bits[j : j + _TILE], L, rate, both=True)
            yield i, j, cosine_from_hamming(H, L)


def _distances(A: NDArray[np.uint8], B: NDArray[np.uint8], L: int, rate: float, *, both: bool) -> Floats:
    H = hamming(A, B, L).astype(np.float64)
    return debias(H, L, rate, both=both) if rate else H


def _names(parts: Sequence[ArrayLike]) -> tuple[Any, ...]:
    """Return the labels in use anywhere, sorted; as text unless all are numbers."""
    seen: dict[str, Any] = {}
    for y in parts:
        given = np.asarray(y, object) if isinstance(y, (list, tuple)) else np.asarray(y)
        seen |= {label_text(label): label for label in given[is_labelled(given)].tolist()}
    if not seen:
        raise InputError("no site has a label; at least one row somewhere must have one")
    if all(isinstance(label, (int, float, bool)) for label in seen.values()):
        return tuple(sorted(seen.values()))
    return tuple(sorted(seen))

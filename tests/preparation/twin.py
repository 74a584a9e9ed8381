"""Preparation of pooled rows by scikit-learn, SciPy and a few lines of NumPy; secure runs are compared with it.

Nothing here knows how fedgeom does it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, null_space
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def scaled(X, limit=None):
    """Columns of mean 0 and deviation 1, without those that never vary."""
    found = StandardScaler().fit_transform(X)[:, np.ptp(X, axis=0) > 0]
    return found if limit is None else np.clip(found, -limit, limit)


def filled(X, strategy, indicators):
    """Gaps filled in, and columns that say where they were."""
    return SimpleImputer(strategy=strategy, add_indicator=indicators).fit_transform(X)


def categories(words, owners, min_rows, min_sites=1):
    """Columns of 0 and 1: empty cells and words that enough rows and sites have, and one for all others together.

    words (rows,), "" where a cell is empty; owners (rows,): whose each row is. Returns names and columns.
    """
    names = []
    for word in sorted(set(words.tolist())):
        there = words == word
        if there.sum() >= min_rows and len(set(owners[there].tolist())) >= min_sites:
            names.append(word)
    columns = [words == word for word in names]
    others = ~np.isin(words, names)
    if others.sum() >= max(min_rows, 1):
        names.append("is another")
        columns.append(others)
    return names, np.array(columns, float).T


def table(numbers, words, owners, new_numbers, new_words, min_rows=10):
    """prepare="table": words as columns, gaps filled in with medians, all on one scale; of known and of new rows.

    numbers (rows, columns), NaN where there is none; words: for each column of text (rows,), "" where there is none.
    A new word is one of the others; where these have no column it is nothing.
    """
    blocks = [numbers]
    new_blocks = [new_numbers]
    for column, new_column in zip(words, new_words, strict=True):
        names, found = categories(column, owners, min_rows)
        blocks.append(found)
        called = np.where(np.isin(new_column, names), new_column, "is another")
        new_blocks.append(np.array([called == name for name in names], float).T)
    steps = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return steps.fit_transform(np.hstack(blocks)), steps.transform(np.hstack(new_blocks))


def log_counts(X, target=None):
    """log(1 + x·t/depth), t the median depth of rows that have a count."""
    depths = X.sum(axis=1)
    t = np.median(depths[depths > 0]) if target is None else target
    return np.log1p(X * (t / np.where(depths > 0, depths, t))[:, None])


def most_varied(X, count):
    """The columns of the largest variances, in their order."""
    return np.sort(np.argsort(-X.var(axis=0), kind="stable")[:count])


def components(X, count):
    """Principal components; each points where its largest weight is positive."""
    fitted = PCA(count, svd_solver="full").fit(X)
    turned = [np.sign(one[np.abs(one).argmax()]) for one in fitted.components_]
    return fitted.transform(X) * turned


def disc(X, y, owners, curvature=1.0, spread=1.0):
    """Points of the disc: the plane of most scatter between the sites' own classes beside that within them.

    Rows without a label ("") are mapped and not learnt from.
    """
    known = y != ""
    Z = (X - X[known].mean(axis=0)) / X[known].std(axis=0)
    between = np.zeros((X.shape[1],) * 2)
    within = np.zeros_like(between)
    for owner in set(owners.tolist()):
        for word in set(y[(owners == owner) & known].tolist()):
            rows = Z[(owners == owner) & (y == word)]
            between += len(rows) * np.outer(rows.mean(axis=0), rows.mean(axis=0)) / known.sum()
            within += len(rows) * np.cov(rows.T, ddof=0) / known.sum()
    within = within + 1e-6 * np.trace(within) / len(within) * np.eye(len(within))
    ratios, vectors = eigh(between, within)
    plane = vectors[:, [-1, -2]]
    if ratios[-2] < 1e-3 * ratios[-1]:  # two classes: beside the first, the direction in which rows vary most
        free = null_space((within @ plane[:, 0])[None])
        second = free @ eigh(free.T @ (within + between) @ free)[1][:, -1]
        plane[:, 1] = second / np.sqrt(second @ within @ second)
    plane = plane * [np.sign(one[np.abs(one).argmax()]) for one in plane.T]
    plane = plane * spread / np.sqrt(np.trace(plane.T @ (within + between) @ plane))
    V = Z @ plane / np.sqrt(curvature)
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    return V / lengths * np.tanh(np.sqrt(curvature) * lengths) / np.sqrt(curvature)

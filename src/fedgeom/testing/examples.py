"""Small sites on which nearly every method can be tried: points of the disc, two classes, names that all share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedgeom.data.sites import SiteData


def example_sites(sites: int = 4, rows: int = 24, seed: int = 0) -> list[SiteData]:
    """Return sites with two classes of points inside the unit disc; every site has both."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(sites):
        y = np.arange(rows) % 2
        centres = np.array([[-0.35, 0.05], [0.35, -0.05]])
        X = centres[y] + 0.12 * rng.standard_normal((rows, 2))
        found.append(SiteData(f"site-{at + 1}", X, np.array(["left", "right"])[y]))
    return found


def twins(sites: list[SiteData], seed: int = 1) -> dict[str, list[SiteData]]:
    """Return the same sites with other data, by what is other: names, columns and label names stay as they are."""
    rng = np.random.default_rng(seed)
    rows = [other_rows(site, rng) for site in sites]
    return {
        "rows": rows,
        "labels": [other_labels(site, rng) for site in sites],
        "rows and labels": [other_labels(site, rng) for site in rows],
        "numbers of rows": [site.take(np.arange(len(site) - max(1, len(site) // 4))) for site in sites],
        "sizes of classes": [other_sizes(site) for site in sites],
        "extreme rows": [with_extreme_row(site) for site in sites],
    }


def other_rows(site: SiteData, rng: np.random.Generator) -> SiteData:
    """Move each row a little, no farther out than it was."""
    X = site.X + 0.05 * site.X.std(axis=0) * rng.standard_normal(site.X.shape)
    before = np.linalg.norm(site.X, axis=1)
    after = np.linalg.norm(X, axis=1)
    return replace(site, table=X * (np.minimum(before, after) / np.maximum(after, 1e-300))[:, None])


def other_labels(site: SiteData, rng: np.random.Generator) -> SiteData:
    """Deal the labels to other rows."""
    return replace(site, y=site.y[rng.permutation(len(site))])


def other_sizes(site: SiteData) -> SiteData:
    """Give every third row of the last class to the first one; a site of one class stays as it is."""
    y = site.y.copy()
    classes = site.classes
    y[np.flatnonzero(site.y == classes[-1])[::3]] = classes[0]
    return replace(site, y=y)


def with_extreme_row(site: SiteData) -> SiteData:
    """Move one row far out: to the rim, where all rows lie inside the unit disc."""
    X = site.X.copy()
    length = float(np.linalg.norm(site.X, axis=1).max())
    at = int(np.linalg.norm(X, axis=1).argmax())
    X[at] *= (0.999 if length < 1 else 1000 * length) / max(length, 1e-300)
    return replace(site, table=X)

"""What a coordinator can say about a row from what it decodes: Gaussians, corners of hulls, moments, landmarks.

    python benchmarks/row_leakage.py                # everything; writes results/row_leakage.json
    python benchmarks/row_leakage.py --quick        # fewer draws; writes nothing
    python benchmarks/row_leakage.py --json         # the last line is one JSON object
    python benchmarks/row_leakage.py --only gaussian hull

One class of a hospital's T cells (CD4 naive cells of Stanford), some rows of it drawn at random, seven markers or two
(for hulls, which live in a plane). The attacker knows the distribution of the class well (2,000 other rows) and asks of
a row whether it is among those drawn. Three figures:

- member: the area under the curve with which the attacker tells rows of the class from fresh ones (0.5: not at all),
  from the Gaussian's mean and covariance against those of the distribution (the likelihood ratio to second order), or
  from the distance to the nearest corner.
- read: the share of rows that a guess comes nearer than 0.05 standard deviations: each corner is one, of a Gaussian the
  ends of its axes are.
- row: how often the attacker finds the row when it is shown that and 99 fresh ones.

"gaussian" is what `Ellipses` shows of a class: covariances from 2 rows for each column on, below that variances only;
"unguarded" is the covariance always. "moments" are those of five hospitals' rows together, as many of each; of these
`Ridge` shows a class's mean ("ridge"), preparation means and variances of columns ("scaled"), and `XCLP` through
anchors the directions of clusters, each of groups of ten rows of three hospitals ("anchors", from 50 rows on).
"landmark" is what `PoincareMap` shows of a cell of so many rows of all sites together: their mean; "landmark-20d" is
that of CD4 T cells of Kang's donors in 20 principal components.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.federation.policy import StrictPolicy
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.poincare import exp0
from fedgeom.methods.ellipses.core import EllipseLayout, read_sum, write_classes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from papers.common import Floats, load_data
from papers.hulls.plain import local_hulls
from papers.maps.sets import prepared

RESULTS = Path(__file__).parent / "results" / "row_leakage.json"
SIZES = (2, 5, 10, 20, 50, 100, 500)
NEAR, OTHERS, KNOWN = 0.05, 99, 2000
TOGETHER = ("moments", "ridge", "scaled", "anchors")
WAYS = ("gaussian", "unguarded", "gaussian-2d", "hull", *TOGETHER, "landmark", "landmark-20d")
HOSPITALS = 5
FOR_ANCHORS = 50
"""Rows of a hospital; of fewer, no cluster has ten rows of three hospitals."""


def standard(rows: Floats, known: Floats) -> Floats:
    """Return rows in the coordinates in which the distribution has mean 0 and covariance 1."""
    root = np.linalg.cholesky(np.cov(known.T))
    return np.asarray(np.linalg.solve(root, (rows - known.mean(axis=0)).T).T)


def gaussian(rows: Floats, full: float) -> tuple[Floats, Floats]:
    """Return the mean and the covariance that the coordinator reads from a sum with these rows alone in a slot."""
    settings, layout = fedgeom.Ellipses(scale="none"), EllipseLayout(rows.shape[1], 1, 2, 1)
    vector = write_classes(rows, np.full(len(rows), "x"), {"x": 0}, layout, settings, full * rows.shape[1])
    if len(rows) < full * rows.shape[1]:  # other classes' scatter hides this one's
        vector[: layout.scatter] = 0.0
    found = read_sum(vector, layout).gaussians
    return found.means[0], found.covariances[0]


def of_moments(mean: Floats, covariance: Floats, asked: Floats) -> tuple[Floats, Floats]:
    """Return how much a row looks like one behind the moments, and the attacker's guesses at rows.

    All in standard coordinates. The likelihood ratio to second order: xᵀm + (xᵀ(S - 1)x - tr(S - 1)) / 2.
    """
    off = covariance - np.eye(len(mean))
    like = asked @ mean + (np.einsum("ni,ij,nj->n", asked, off, asked) - np.trace(off)) / 2
    values, vectors = np.linalg.eigh(covariance)
    axes = (np.sqrt(np.maximum(values, 0)) * vectors).T
    return like, np.vstack([mean, mean + axes, mean - axes])


def figures(like: Floats, guesses: Floats, inside: Floats, count: int) -> tuple[float, float, float]:
    """Return the area under the curve, the share of rows read, and how often a row is found among others."""
    mine, fresh = like[:count], like[count:]
    member = (mine[:, None] > fresh).mean() + 0.5 * (mine[:, None] == fresh).mean()
    gaps = np.linalg.norm(inside[:, None] - guesses[None], axis=2).min(axis=1) / np.sqrt(inside.shape[1])
    found = np.mean([(one > fresh[:OTHERS]).all() for one in mine])
    return float(member), float((gaps < NEAR).mean()), float(found)


@functools.cache
def one_class(components: bool = False) -> Floats:
    """Return the rows of the class: in markers, or of another set in principal components."""
    if components:
        cells, X = prepared("kang")
        return X[cells.y == "CD4 T cells", :20]
    z = load_data("hipc_tcell_5hospitals.npz")
    return np.asarray(z["X"][(z["site"] == 0) & (z["y"] == 6)], np.float64)


def play(way: str, size: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Draw a class of so many rows, show the coordinator what it would see, and let it guess."""
    rows = one_class(way == "landmark-20d")
    rows = rows[rng.permutation(len(rows))[: KNOWN + 5 * size + 200]]
    rows = standard(rows[KNOWN:], rows[:KNOWN])
    if way in ("hull", "gaussian-2d"):
        rows = rows[:, :2]
    inside, fresh = rows[:size], rows[-200:]
    asked = np.vstack([inside, fresh])
    if way == "hull":
        grid = PolarGrid(0.01, 0.999)
        points = exp0(asked / 4, c=1.0)  # most lie well inside, as with the joint map
        bins = local_hulls(points[:size], np.full(size, "x"), grid, 0.0 if size < 10 else "auto")["x"]
        corners = (
            np.arctanh(np.linalg.norm(grid.center(bins), axis=1))[:, None] * _directions(grid.center(bins)) * 4
        )
        gaps = np.linalg.norm(asked[:, None] - corners[None], axis=2).min(axis=1)
        return figures(-gaps, corners, inside, size)
    if way.startswith("landmark"):
        return figures(asked @ inside.mean(axis=0), inside.mean(axis=0)[None], inside, size)
    shown = rows[: HOSPITALS * size] if way in TOGETHER else inside
    if way == "anchors":
        centres = anchors(shown)
        gaps = np.linalg.norm(asked[:, None] - centres[None], axis=2).min(axis=1)
        return figures(-gaps, centres, inside, size)
    mean, covariance = gaussian(shown, 0.0 if way in ("unguarded", *TOGETHER) else 2.0)
    if way == "ridge":
        covariance = np.eye(len(mean))
    elif way == "scaled":
        covariance = np.diag(np.diag(covariance))
    like, guesses = of_moments(mean, covariance, asked)
    return figures(like, guesses, inside, size)


def anchors(rows: Floats) -> Floats:
    """Return the anchors that strict sites find, as long as a row usually is: they are directions."""
    sites = [
        fedgeom.SiteData(f"hospital {at}", rows[at::HOSPITALS], np.arange(len(rows[at::HOSPITALS])) % 2)
        for at in range(HOSPITALS)
    ]
    found = fedgeom.run(fedgeom.XCLP(graph="anchors"), sites, policy=StrictPolicy())
    return np.asarray(found.model.anchors * np.sqrt(rows.shape[1]))


def _directions(points: Floats) -> Floats:
    return points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)


def measure(way: str, *, quick: bool) -> dict[str, Any]:
    """Return the figures of a way by class size, means over draws."""
    found = {}
    for size in SIZES:
        if way == "anchors" and size < FOR_ANCHORS:
            continue
        draws = [play(way, size, np.random.default_rng([size, at])) for at in range(4 if quick else 60)]
        member, read, row = np.mean(draws, axis=0).round(3).tolist()
        found[str(size)] = {"member": member, "read": read, "row": row}
    return found


def main() -> None:
    """Play all and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer draws; writes nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--only", nargs="+", choices=WAYS, default=WAYS, help="some of them")
    options = parser.parse_args()
    found = {way: measure(way, quick=options.quick) for way in options.only}
    for way, sizes in found.items():
        for size, row in sizes.items():
            print(f"{way:12} {size:>4} rows: " + ", ".join(f"{name} {value:.3f}" for name, value in row.items()))
    if not options.quick:
        before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
        RESULTS.write_text(json.dumps(before | found, indent=1) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()

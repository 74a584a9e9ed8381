"""What a federated classifier is compared with: training on pooled rows, and training alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import check_finite
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.federation.results import Run
from fedgeom.methods.hulls import embedding as joint_map

if TYPE_CHECKING:
    from fedgeom.geometry.hyperbolic.svm import PoincareSVC  # scikit-learn: 2 s


@dataclass(frozen=True)
class DiscClassifier:
    """A classifier of points in the disc, with the map that takes a site's rows there (None: they are there)."""

    svc: PoincareSVC
    matrix: Floats | None
    """(columns, 2)"""

    def predict(self, site: SiteData, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the class of each row; the site's own rows say how its columns are scaled."""
        found: npt.NDArray[Any] = self.svc.predict(_points(site, np.asarray(X, np.float64), self.matrix, self.svc))
        return found


def train(sites: Sequence[SiteData], *, in_disc: bool, C: float = 5.0, curvature: float = 1.0) -> DiscClassifier:
    """Train on the rows of all these sites at once; labels that read the same mean the same."""
    from fedgeom.geometry.hyperbolic.svm import PoincareSVC  # scikit-learn: 2 s

    svc = PoincareSVC(C=C, curvature=curvature)
    matrix = None
    if not in_disc:
        total = np.sum([joint_map.site_scatter(site.X, site.y.astype(str)) for site in sites], axis=0)
        matrix = joint_map.projection(total, sites[0].X.shape[1])
    points = np.vstack([_points(site, site.X, matrix, svc) for site in sites])
    return DiscClassifier(svc.fit(points, np.concatenate([site.y.astype(str) for site in sites])), matrix)


def _points(site: SiteData, X: Floats, matrix: Floats | None, svc: PoincareSVC) -> Floats:
    if matrix is None:
        return X
    return joint_map.embed(X, matrix, joint_map.column_scales(site.X), c=float(svc.curvature))


def train_alone(site: SiteData, options: Mapping[str, Any]) -> Any:
    """Return a predictor trained on one site; a site with one class always answers with that."""
    if len(site.classes) < 2:
        return lambda at, X: np.full(len(X), str(site.classes[0]))
    return train([site], **options).predict


Truth = Mapping[str, Mapping[str, str]]
"""Site, the site's name of a class, the name that all share."""


@dataclass(frozen=True)
class Comparison:
    """Accuracy on each site's own test rows, in the site's own words."""

    sites: tuple[str, ...]
    federated: tuple[float, ...]
    centralised: tuple[float, ...]
    """Trained on everybody's rows, pooled; empty when the sites' words could not be brought together."""
    local: tuple[float, ...]
    """Trained on the site's own rows alone; empty where there is nothing to compare with."""
    elsewhere: tuple[float, ...]
    """The site's own model at the other sites, on average; empty like ``centralised``."""

    def means(self) -> dict[str, float]:
        """Return the mean over the sites of each column that is there."""
        columns = ("federated", "centralised", "local", "elsewhere")
        return {name: float(np.mean(getattr(self, name))) for name in columns if getattr(self, name)}


def compare(
    run: Run,
    train_sites: Sequence[SiteData],
    test_sites: Sequence[SiteData],
    *,
    truth: Truth | None = None,
    C: float = 5.0,
) -> Comparison:
    """Score a finished hulls run beside pooled and local training.

    ``truth`` brings the sites' words together. Without it they count as one vocabulary if there are no more
    words than classes; otherwise the columns that need one are left out.
    """
    if [site.name for site in train_sites] != [site.name for site in test_sites]:
        raise InputError("the test parts must be of the same sites as the train parts, in the same order")
    both = zip(train_sites, test_sites, strict=True)
    pairs = [(a, b) for a, b in both if "names" in run.local.get(a.name, {}) and len(b)]
    for _, tested in pairs:
        check_finite(tested)  # before minutes of training
    if not pairs:
        raise InputError("no site has both a result and test rows; nothing can be compared")
    common = _common([a for a, _ in pairs], truth, run.model.classes)
    in_disc = run.model.embedding is None
    options: dict[str, Any] = {"in_disc": in_disc, "C": C, "curvature": run.model.curvature}
    federated = [_accuracy(run.model.for_site(run.local[a.name]), b) for a, b in pairs]
    alone = [train_alone(a, options) for a, _ in pairs]
    local = [_share(model(a, b.X), b.y.astype(str)) for model, (a, b) in zip(alone, pairs, strict=True)]
    pooled: list[float] = []
    elsewhere: list[float] = []
    if common is not None:
        shared = [(_translate(a, common), _translate(b, common)) for a, b in pairs]
        whole = train([a for a, _ in shared], **options)
        pooled = [_share(whole.predict(a, b.X), b.y) for a, b in shared]
        for i, (mine, _) in enumerate(pairs):
            words = common[mine.name]
            others = [
                _share(np.array([words[w] for w in alone[i](a, b.X)]), b.y)
                for j, (a, b) in enumerate(shared)
                if j != i
            ]
            elsewhere.append(float(np.mean(others)) if others else float("nan"))
    return Comparison(
        tuple(a.name for a, _ in pairs), tuple(federated), tuple(pooled), tuple(local), tuple(elsewhere)
    )


def _common(sites: Sequence[SiteData], truth: Truth | None, classes: int) -> Truth | None:
    if truth is not None:
        return truth
    words = {site.name: np.unique(site.y.astype(str)).tolist() for site in sites}
    if len({word for mine in words.values() for word in mine}) > classes:
        return None
    return {site: {word: word for word in mine} for site, mine in words.items()}


def _translate(site: SiteData, words: Truth) -> SiteData:
    known = words[site.name]
    # A test part may hold a word that training never saw; it stays as it is and counts as missed.
    y = np.array([known.get(word, word) for word in site.y.astype(str).tolist()], dtype=np.str_)
    return SiteData(site.name, site.X, y)


def _accuracy(model: Model, site: SiteData) -> float:
    """Return the share of a site's rows that a model calls as the site does."""
    try:
        found = np.asarray(model.predict(site.X))
    except InputError as error:
        check_finite(site)  # says which cell it is
        raise InputError(f"site {site.name!r}: {error}") from error
    return _share(found, site.y.astype(str))


def _share(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> float:
    return float(np.mean(found.astype(str) == wanted))

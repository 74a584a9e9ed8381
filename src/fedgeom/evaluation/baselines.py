"""Classifiers of the disc that are trained without a federation: on pooled rows, or at one site alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
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

"""The classifier that Ellipses yields: Gaussians, one or several for each class, and names for the classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.data.labels import as_given
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.geometry.gaussians import Gaussians
from fedgeom.geometry.hyperbolic.poincare import check_points, log0

BELOW = " › "
"""What stands between a site's word and the number of a joint class inside it (`EllipseModel.deeper`)."""


@dataclass(frozen=True, repr=False)
class EllipseModel(Model):
    """Gaussians with weights; the class of a row is the one whose Gaussians together are most likely.

    Joint classes are numbers where sites call them differently, and words where they share these. `for_site` gives the
    same model in one site's words; a word may stand for several classes, and `deeper` tells these apart.
    """

    method: str = field(default="ellipses", init=False)

    log_weights: Floats
    """(Gaussians,): of all rows, which share each has."""
    means: Floats
    """(Gaussians, columns)"""
    covariances: Floats
    """(Gaussians, columns, columns)"""
    groups: Ints
    """(Gaussians,): the joint class of each."""
    classes: int
    """J."""
    curvature: float | None = None
    """None means Euclidean space; else rows are points of the ball with curvature -k."""
    scales: Floats | None = None
    """(2, columns): column means and deviations: the joint ones, or a site's own where the model is bound to one."""
    scaled: bool = False
    """Whether rows are standardised: without ``scales`` the model then predicts for a site only."""
    names: tuple[str, ...] = field(default=())
    """The joint classes in words: those that all share, or a site's own; one word may stand for several."""

    def for_site(self, local: Mapping[str, Any]) -> EllipseModel:
        """Return the model in one site's words and with its scale, from what the site learnt (``run.local[site]``).

        A class that the site has no word for keeps its number, or the word that all share.
        """
        joint = self.names or tuple(f"class {group}" for group in range(self.classes))
        back = {int(group): str(word) for word, group in local["names"].items()}
        back |= {int(group): str(word) for word, many in local.get("covers", {}).items() for group in many}
        words = tuple(back.get(group, joint[group]) for group in range(self.classes))
        scales = np.asarray(local["scales"], np.float64) if local.get("scales") is not None else self.scales
        return replace(self, names=words, scales=scales)

    def deeper(self) -> EllipseModel:
        """Return the model that tells apart the joint classes inside a word: "T cell › class 3" for "T cell"."""
        several = {word for word in self.names if self.names.count(word) > 1}
        words = (f"{word}{BELOW}class {at}" if word in several else word for at, word in enumerate(self.names))
        return self._having("names", tuple(words))  # what else the model knows, such as its columns, stays

    def class_tree(self) -> dict[str, str]:
        """Return a tree over the joint classes, ``{child: parent}``: those that lie near each other share a branch.

        It is learnt from the Gaussians alone, so that no site sends anything more; `HyperFed(class_tree=…)` takes it.
        """
        from fedgeom.geometry.gaussians import joined_tree  # scipy.cluster: a tenth of a second

        parts = Gaussians(np.exp(self.log_weights), self.means, self.covariances)
        words = self.names or tuple(f"class {group}" for group in range(self.classes))
        return joined_tree(parts.merged(self.groups, self.classes), words)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """What `predict` may answer, in the order of the columns of `predict_proba`: each word once."""
        words = list(dict.fromkeys(self.names))
        return as_given(np.array(words), self.label_type) if words else np.arange(self.classes)

    @property
    def joint_classes(self) -> int:
        """How many classes the joint model tells apart."""
        return self.classes

    def answer_numbers(self) -> dict[str, int]:
        """Return the joint class of each answer that stands for one."""
        names = [str(one) for one in (self.names or range(self.classes))]
        return {name: at for at, name in enumerate(names) if names.count(name) == 1}

    @property
    def width(self) -> int:
        """How many columns the model takes."""
        return int(self.means.shape[1])

    @property
    def everywhere(self) -> bool:
        """Whether the joint model predicts by itself: where no scale is needed, or there is a joint one."""
        return not self.scaled or self.scales is not None

    def vectors(self, X: npt.ArrayLike) -> Floats:
        """Return rows as vectors in which the classes are Gaussian."""
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width or not np.isfinite(rows).all():
            raise InputError(f"X has shape {rows.shape}; wanted finite rows of {self.width} columns")
        if self.curvature is not None:
            return np.asarray(log0(check_points(rows, c=self.curvature, name="X"), c=self.curvature))
        if not self.everywhere:
            raise InputError(
                "the model has no joint scale of the columns; say whose rows these are: "
                "model.for_site(run.local[site]), or fedgeom predict RUN FILE --site NAME"
            )
        return rows if self.scales is None else (rows - self.scales[0]) / self.scales[1]

    def _distances(self, X: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return squared Mahalanobis distances, (rows, Gaussians), and half the logs of determinants, (Gaussians,)."""
        rows = self.vectors(X)
        factors = np.linalg.cholesky(self.covariances)
        found = np.empty((len(rows), len(factors)))
        for at, (mean, factor) in enumerate(zip(self.means, factors, strict=True)):
            found[:, at] = (np.linalg.solve(factor, (rows - mean).T) ** 2).sum(axis=0)
        return found, np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)

    def class_scores(self, X: npt.ArrayLike) -> Floats:
        """Return a score per joint class, (rows, J): the log density of its Gaussians together plus its log prior."""
        distances, logs = self._distances(X)
        parts = self.log_weights - logs - 0.5 * distances
        scores = np.full((len(parts), self.classes), -np.inf)
        for at, group in enumerate(self.groups.tolist()):
            scores[:, group] = np.logaddexp(scores[:, group], parts[:, at])
        return scores

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the probability of each answer (`classes_`): of a word, that of all classes it stands for."""
        scores = self.class_scores(X)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        if not self.names:
            return np.asarray(weights)
        words = list(dict.fromkeys(self.names))
        return np.asarray(weights @ np.eye(len(words))[[words.index(name) for name in self.names]])

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the most probable answer for each row: the number of a class, or a word."""
        best: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return best

    def density_scores(self, X: npt.ArrayLike) -> Floats | None:
        """Return minus the squared Mahalanobis distance to the nearest Gaussian."""
        return np.asarray(-self._distances(X)[0].min(axis=1))

    def fit_threshold(self, alpha: float) -> tuple[float, str]:
        """Return the score below which rows are unknown: by known rows, or as for Gaussian classes, by χ²."""
        if self.known is not None:
            return super().fit_threshold(alpha)
        from scipy.stats import chi2  # slow to import

        words = f"they are farther from every class than all but {alpha:g} of its rows, if classes are Gaussian"
        return -float(chi2.isf(alpha, self.width)), words

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> EllipseModel:
        """Build the model from a file's content."""
        made = super().from_tensors(arrays, facts)
        k, d = np.shape(made.means) if np.ndim(made.means) == 2 else (0, 0)
        shapes = {"log_weights": (k,), "covariances": (k, d, d), "groups": (k,)}
        wrong = [name for name, shape in shapes.items() if np.shape(getattr(made, name)) != shape]
        if not k or wrong:
            raise InputError(
                f"the file holds no Gaussians: means of shape {np.shape(made.means)}, {wrong} unlike it"
            )
        known = isinstance(made.classes, int) and 0 < made.classes <= k  # before a range of as many is made
        if not known or set(made.groups.tolist()) != set(range(made.classes)):
            raise InputError(
                f"the file's Gaussians are not of the classes 0 … {made.classes} - 1, each of one or more"
            )
        if made.names and len(made.names) != made.classes:
            raise InputError(f"the file has {len(made.names)} names for {made.classes} classes")
        if made.scales is not None and made.scales.shape != (2, d):
            raise InputError(f"the file's scale has shape {made.scales.shape}; wanted (2, {d})")
        return made

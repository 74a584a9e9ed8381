"""What a run of label propagation leaves: a model through anchors, over pairs what a site's rows say of later ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.methods.xclp.core import Variant, at_site, setting_for, shares


@dataclass(frozen=True, repr=False)
class XclpModel(Model):
    """Anchors and their class scores, by which a row is labelled; or, over pairs, one site's rows and their scores.

    Label propagation over pairs has no anchors: its labels are at the sites, and the coordinator has no rows to
    compare a new one with. `for_site` gives what one site can say of rows that come later: they are labelled from the
    most similar rows that the site itself has. Nothing is sent for that, and nothing that was computed changes.
    """

    method: str = field(default="xclp", init=False)

    classes: tuple[str, ...]
    anchors: Floats | None = None
    """(anchors, columns): unit vectors."""
    anchor_scores: Floats | None = None
    """(anchors, classes)"""
    counts: Floats | None = None
    """(classes,): how many labels each class has over all sites."""
    variant: Variant = "ours"
    nearest: int = 3
    """On how many anchors a row is written."""
    rows: Floats | None = None
    """(rows, columns): one site's own rows, over pairs after `for_site`."""
    row_scores: Floats | None = None
    """(rows, classes)"""

    @property
    def width(self) -> int | None:
        """How many columns the model takes."""
        known = self.anchors if self.anchors is not None else self.rows
        return super().width if known is None else int(known.shape[1])

    @property
    def everywhere(self) -> bool:
        """Whether rows can be labelled as it is: with anchors, or bound to a site's own rows."""
        return self.anchors is not None or self.rows is not None

    def for_site(self, local: Mapping[str, Any]) -> XclpModel:
        """Return what labels rows that come later at one site: ``local`` is its part of ``run.local``."""
        if self.anchors is not None:
            return self
        if "rows" not in local or "scores" not in local:
            raise InputError(
                "this site has no result of label propagation over pairs; wanted run.local[site], or the site's own "
                "model file (sites/NAME.safetensors in the run's folder)"
            )
        return replace(
            self, rows=np.asarray(local["rows"], np.float64), row_scores=np.asarray(local["scores"], np.float64)
        )

    def scores(self, X: npt.ArrayLike) -> Floats:
        """Return a score for each row and class."""
        known = self.anchors if self.anchors is not None else self.rows
        if known is None:
            raise InputError(
                "label propagation over pairs leaves no model with the coordinator; each site has its labels in "
                "run.labels[name], and model.for_site(run.local[name]).predict(X) labels rows that come later there. "
                'For a model that needs no site use XCLP(graph="anchors")'
            )
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != known.shape[1]:
            raise InputError(f"X has shape {rows.shape}; wanted rows of {known.shape[1]} columns")
        return self._anchored(rows) if self.anchors is not None else self._like_own_rows(rows)

    def _anchored(self, X: Floats) -> Floats:
        from fedgeom.geometry.graphs.anchors import codes  # scipy.sparse: half a second

        assert self.anchors is not None
        return np.asarray(codes(X, self.anchors, self.nearest) @ self.anchor_scores)

    def _like_own_rows(self, X: Floats) -> Floats:
        from fedgeom.geometry.graphs.anchors import unit_rows  # scipy.sparse: half a second
        from fedgeom.geometry.graphs.knn import attach

        assert self.rows is not None
        assert self.row_scores is not None
        setting = setting_for(self.variant, None, None)
        cosine = unit_rows(X) @ unit_rows(self.rows).T
        weights = attach(cosine, np.ones(len(self.rows)), setting.k, power=setting.power)
        return np.asarray(weights @ shares(self.row_scores))

    def density_scores(self, X: npt.ArrayLike) -> Floats | None:
        """Return the cosine of each row with the nearest anchor; over pairs nothing."""
        if self.anchors is None:
            return None
        from fedgeom.geometry.graphs.anchors import unit_rows  # scipy.sparse: half a second

        self.scores(X)  # checks the columns
        return np.asarray((unit_rows(X) @ self.anchors.T).max(axis=1))

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return class shares for each row, (rows, classes); a row of zeros where no label reaches."""
        Z = self.scores(X)
        if self.anchors is None:
            return shares(Z)
        nobody = np.full(len(Z), -1)
        counts = np.asarray(self.counts)
        return shares(at_site(Z, nobody, setting_for(self.variant, None, None), counts, "none").scores)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the name of each row's class, "" where no label reaches."""
        p = self.predict_proba(X)
        best = np.where(p.sum(axis=1) > 0, p.argmax(axis=1), len(self.classes))
        named: npt.NDArray[Any] = np.array([*self.classes, ""])[best]
        return named

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and facts of the model file."""
        arrays: dict[str, npt.NDArray[Any]] = {"classes": np.arange(len(self.classes))}
        for name in ("anchors", "anchor_scores", "counts", "rows", "row_scores"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        return arrays, {"classes": list(self.classes), "nearest": self.nearest, "variant": self.variant}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> XclpModel:
        """Build the model from a file's content."""
        names = ("anchors", "anchor_scores", "counts", "rows", "row_scores")
        try:
            found = {name: arrays[name] for name in names if name in arrays}
            model = cls(tuple(facts["classes"]), **found, variant=facts["variant"], nearest=int(facts["nearest"]))
            setting_for(model.variant, None, None)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the file holds no label propagation model: {error}") from error
        for of, scores in ((model.anchors, model.anchor_scores), (model.rows, model.row_scores)):
            if of is not None and (scores is None or scores.shape != (len(of), len(model.classes))):
                raise InputError("the file's anchors and scores do not fit together")
        return model

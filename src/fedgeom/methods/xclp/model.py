"""What a run of label propagation leaves: through anchors a model, over pairs only the list of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation import modelfile

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class XclpModel:
    """Anchors and their class scores; a row is labelled by its nearest anchors.

    Label propagation over pairs has no anchors: its labels are at the sites, and the coordinator has no rows to
    compare a new one with.
    """

    classes: tuple[str, ...]
    anchors: Floats | None = None
    anchor_scores: Floats | None = None
    counts: Floats | None = None
    """How many labels each class has over all sites."""
    variant: str = "ours"
    nearest: int = 3

    @property
    def everywhere(self) -> bool:
        """Whether rows can be labelled without a site's own rows: with anchors only."""
        return self.anchors is not None

    def scores(self, X: npt.ArrayLike) -> Floats:
        """Return a score for each row and class."""
        from fedgeom.geometry.graphs.anchors import codes

        if self.anchors is None or self.anchor_scores is None:
            raise InputError(
                "label propagation over pairs leaves no model with the coordinator; each site has its labels in "
                "run.labels[name], and model.at(site, run.local[name]).predict(X) labels rows that come later there. "
                'For a model that needs no site use XCLP(graph="anchors")'
            )
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.anchors.shape[1]:
            raise InputError(f"X has shape {rows.shape}; wanted rows of {self.anchors.shape[1]} columns")
        return np.asarray(codes(rows, self.anchors, self.nearest) @ self.anchor_scores)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the name of each row's class, "" where no label reaches."""
        from fedgeom.methods.xclp.plain import at_site, setting_for

        Z = self.scores(X)
        nobody, counts = np.full(len(Z), -1), np.asarray(self.counts)
        codes = at_site(Z, nobody, setting_for(self.variant, None, None), counts, "none").codes  # type: ignore[arg-type]
        named: npt.NDArray[Any] = np.array([*self.classes, ""])[codes]
        return named

    def at(self, site: SiteData, local: Mapping[str, Any]) -> SiteNeighbours:
        """Return what one site can say of rows that come later: ``local`` is its part of ``run.local``."""
        return SiteNeighbours(self.classes, site.X, np.asarray(local["scores"]), self.variant)

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and facts of the model file."""
        arrays: dict[str, npt.NDArray[Any]] = {"classes": np.arange(len(self.classes))}
        if self.anchors is not None and self.anchor_scores is not None:
            arrays |= {"anchors": self.anchors, "anchor_scores": self.anchor_scores}
        if self.counts is not None:
            arrays["counts"] = self.counts
        return arrays, {"classes": list(self.classes), "nearest": self.nearest, "variant": self.variant}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> XclpModel:
        """Build the model from a file's content."""
        try:
            anchors, scores = arrays.get("anchors"), arrays.get("anchor_scores")
            names, variant = tuple(facts["classes"]), str(facts["variant"])
            model = cls(names, anchors, scores, arrays.get("counts"), variant, int(facts["nearest"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the file holds no label propagation model: {error}") from error
        if anchors is not None and (scores is None or scores.shape != (len(anchors), len(model.classes))):
            raise InputError("the file's anchors and scores do not fit together")
        return model

    def to_bytes(self) -> bytes:
        """Return the model file's bytes."""
        return modelfile.to_bytes("xclp", *self.tensors())

    def save(self, path: str | Path) -> None:
        """Write the model to a safetensors file; read it back with `fedgeom.load_model`."""
        modelfile.write(path, self.to_bytes())


@dataclass(frozen=True)
class SiteNeighbours:
    """Labels for rows that come after a run over pairs, from the most similar rows that the site itself has.

    Nothing is sent, and nothing that was computed changes. Rows unlike all of the site's own get no label.
    """

    classes: tuple[str, ...]
    X: Floats
    scores: Floats
    variant: str = "ours"

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return class shares for each row; a row of zeros where no similar row has a label."""
        from fedgeom.geometry.graphs.anchors import unit_rows
        from fedgeom.geometry.graphs.knn import attach
        from fedgeom.methods.xclp.plain import setting_for
        from fedgeom.methods.xclp.scores import shares

        rows, setting = np.asarray(X, np.float64), setting_for(self.variant, None, None)  # type: ignore[arg-type]
        if rows.ndim != 2 or rows.shape[1] != self.X.shape[1]:
            raise InputError(f"X has shape {rows.shape}; wanted rows of {self.X.shape[1]} columns")
        cosine = unit_rows(rows) @ unit_rows(self.X).T
        weights = attach(cosine, np.ones(len(self.X)), setting.k, power=setting.power)
        return shares(np.asarray(weights @ shares(self.scores)))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the name of each row's class, "" where none is near."""
        p = self.predict_proba(X)
        best = np.where(p.sum(axis=1) > 0, p.argmax(axis=1), len(self.classes))
        named: npt.NDArray[Any] = np.array([*self.classes, ""])[best]
        return named

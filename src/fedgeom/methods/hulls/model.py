"""The classifier that the hulls method yields: hyperplanes in the disc, and names for their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.federation import modelfile
from fedgeom.methods.hulls.embedding import column_scales, embed

if TYPE_CHECKING:
    from fedgeom.geometry.hyperbolic.svm import PoincareSVC

Floats = npt.NDArray[np.float64]

LEAST_ROWS = 20
"""Fewer rows say too little about their site's column means and deviations."""


@dataclass(frozen=True)
class HullModel:
    """Poincaré hyperplanes (reference point and normal) with Platt scaling, one per class.

    Global classes are numbers, because sites may call them differently. `named` gives the same model
    in one site's words.
    """

    reference: Floats
    normal: Floats
    platt: Floats
    classes: int
    curvature: float
    embedding: Floats | None = None
    scales: Floats | None = None
    names: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, svc: PoincareSVC, classes: int, embedding: Floats | None = None) -> HullModel:
        """Take the numbers out of a fitted classifier whose labels are 0 … classes-1."""
        if svc.classes_.tolist() != list(range(classes)):
            raise InputError(f"the groups {svc.classes_.tolist()} were fitted; wanted 0 … {classes - 1}")
        return cls(svc.reference_, svc.coef_, svc.platt_, classes, float(svc.curvature), embedding)

    def named(self, names: Mapping[Any, int], X: npt.ArrayLike | None = None) -> HullModel:
        """Return the model in one site's words: ``names`` maps its labels to global classes.

        With a joint map to the disc, ``X`` (the site's rows) fixes the site's column means and deviations.
        A class the site does not have keeps its number.
        """
        back = {group: str(label) for label, group in names.items()}
        words = tuple(back.get(group, f"class {group}") for group in range(self.classes))
        scales = column_scales(np.asarray(X, np.float64)) if X is not None and self.embedding is not None else None
        return replace(self, names=words, scales=scales if scales is not None else self.scales)

    def to_disc(self, X: npt.ArrayLike) -> Floats:
        """Return the rows as points in the disc."""
        from fedgeom.geometry.hyperbolic.poincare import check_points

        rows = np.asarray(X, np.float64)
        if self.embedding is None:
            return check_points(rows, c=self.curvature, name="X", dim=self.reference.shape[1])
        if rows.ndim != 2 or rows.shape[1] != len(self.embedding):
            raise InputError(f"X has shape {rows.shape}; wanted rows of {len(self.embedding)} columns")
        scales = self.scales
        if scales is None:
            if len(rows) < LEAST_ROWS:
                raise InputError(
                    f"{len(rows)} rows were given to a model that is not bound to a site; give at least "
                    f"{LEAST_ROWS} rows of one site, or bind the model with model.named(names, X_of_the_site)"
                )
            scales = column_scales(rows)
        return embed(rows, self.embedding, scales, c=self.curvature)

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Return the scores ⟨log_p(x), w⟩ (Eq. 5), one column per hyperplane."""
        from fedgeom.geometry.hyperbolic.poincare import log_map

        points = self.to_disc(X)
        return np.column_stack(
            [log_map(p, points, c=self.curvature) @ w for p, w in zip(self.reference, self.normal, strict=True)]
        )

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return each class's probability by Platt scaling (Appendix H), rows summing to 1."""
        scores = self.decision_function(X)
        A, B = self.platt[:, 0], self.platt[:, 1]
        p = 0.5 * (1.0 - np.tanh((A * scores + B) / 2.0))
        if self.classes == 2:
            return np.column_stack([1.0 - p[:, 0], p[:, 0]])
        total = p.sum(axis=1, keepdims=True)
        p = np.where(total > 0, p, 1.0)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the class of each row: a number, or a name if the model is `named`.

        Of more than two classes it is the most probable one; of two it is the side of the hyperplane, as
        `PoincareSVC` has it, which Platt's offset may put a little beside probability one half.
        """
        best: npt.NDArray[Any]
        if self.classes == 2:
            best = (self.decision_function(X)[:, 0] > 0).astype(int)
        else:
            best = self.predict_proba(X).argmax(axis=1)
        return np.array(self.names)[best] if self.names else best

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and facts of the model file."""
        arrays = {"reference": self.reference, "normal": self.normal, "platt": self.platt}
        if self.embedding is not None:
            arrays["embedding"] = self.embedding
        if self.scales is not None:
            arrays["scales"] = self.scales
        return arrays, {"classes": self.classes, "curvature": self.curvature, "names": list(self.names)}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> HullModel:
        """Build the model from a file's content."""
        try:
            return cls(
                arrays["reference"],
                arrays["normal"],
                arrays["platt"],
                int(facts["classes"]),
                float(facts["curvature"]),
                arrays.get("embedding"),
                arrays.get("scales"),
                tuple(facts["names"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the file holds no hulls model: {error} is missing or wrong") from error

    def to_bytes(self) -> bytes:
        """Return the model file's bytes."""
        return modelfile.to_bytes("hulls", *self.tensors())

    def save(self, path: str | Path) -> None:
        """Write the model to a safetensors file; read it back with `fedgeom.load_model`."""
        modelfile.write(path, self.to_bytes())

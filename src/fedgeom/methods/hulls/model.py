"""The classifier that the hulls method yields: hyperplanes in the disc, and names for their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.geometry.hyperbolic.poincare import check_points, log_map
from fedgeom.methods.hulls.embedding import embed

if TYPE_CHECKING:
    from fedgeom.methods.hulls.core import Classifier


@dataclass(frozen=True, repr=False)
class HullModel(Model):
    """Hyperplanes of the disc (reference point and normal) with Platt scaling, one per class; or flat ones.

    Global classes are numbers where sites call them differently, and words where they share these. `for_site` gives the
    same model in one site's words.
    """

    method: str = field(default="hulls", init=False)

    reference: Floats
    """(hyperplanes, 2): a point of each."""
    normal: Floats
    """(hyperplanes, 2): the tangent vector there that is orthogonal to it."""
    platt: Floats
    """(hyperplanes, 2): A and B of Platt's sigmoid."""
    classes: int
    """J; two classes have one hyperplane, more have one each."""
    curvature: float
    embedding: Floats | None = None
    """(columns, 2): the joint map to the disc; None: rows are points of the disc."""
    scales: Floats | None = None
    """(2, columns): column means and deviations, the joint ones, or a site's own where the model is bound to one."""
    names: tuple[str, ...] = field(default=())
    """The classes in words: those that all share, or a site's own where the model is bound to one."""
    intercept: Floats | None = None
    """(hyperplanes,): those of straight lines in the disc's flat coordinates (FLE); None: geodesics (FLP)."""

    @classmethod
    def of(
        cls,
        svc: Classifier,
        classes: int,
        embedding: Floats | None = None,
        scales: Floats | None = None,
        names: tuple[str, ...] = (),
        *,
        curvature: float = 1.0,
    ) -> HullModel:
        """Take the numbers out of a fitted classifier whose labels are 0 … classes-1."""
        if svc.classes_.tolist() != list(range(classes)):
            raise InputError(f"the groups {svc.classes_.tolist()} were fitted; wanted 0 … {classes - 1}")
        flat: Floats | None = getattr(svc, "intercept_", None)  # the Euclidean one's
        return cls(
            svc.reference_, svc.coef_, svc.platt_, classes, float(curvature), embedding, scales, names, flat
        )

    def for_site(self, local: Mapping[str, Any]) -> HullModel:
        """Return the model in one site's words and with its scale, from what the site learnt (``run.local[site]``).

        A class that the site does not have keeps its number, or the word that all share.
        """
        back = {int(group): str(label) for label, group in local["names"].items()}
        joint = self.names or [f"class {group}" for group in range(self.classes)]
        words = tuple(back.get(group, joint[group]) for group in range(self.classes))
        scales = np.asarray(local["scales"], np.float64) if local.get("scales") is not None else self.scales
        return replace(self, names=words, scales=scales)

    @property
    def width(self) -> int:
        """How many columns the model takes."""
        return self.reference.shape[1] if self.embedding is None else len(self.embedding)

    @property
    def everywhere(self) -> bool:
        """Whether the joint model predicts by itself: where no scale is needed, or there is a joint one."""
        return self.embedding is None or self.scales is not None

    @property
    def in_disc(self) -> bool:
        """Whether the model can be drawn in the disc: it can."""
        return True

    def to_disc(self, X: npt.ArrayLike) -> Floats:
        """Return the rows as points in the disc."""
        rows = np.asarray(X, np.float64)
        if self.embedding is None:
            return check_points(rows, c=self.curvature, name="X", dim=self.reference.shape[1])
        if rows.ndim != 2 or rows.shape[1] != len(self.embedding):
            raise InputError(f"X has shape {rows.shape}; wanted rows of {len(self.embedding)} columns")
        gaps = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if gaps.size:  # the map would take them somewhere, and a class would be named
            raise InputError(
                f"X has {gaps.size} rows with gaps or infinite numbers, the first is row {gaps[0]}; impute or drop them"
            )
        if self.scales is None:
            raise InputError(
                "the model has no joint scale of the columns; say whose rows these are: "
                "model.for_site(run.local[site]), or fedgeom predict RUN FILE --site NAME"
            )
        return embed(rows, self.embedding, self.scales, c=self.curvature)

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Return the scores ⟨log_p(x), w⟩ (Eq. 5), of a flat model ⟨x, w⟩ + b, one column per hyperplane."""
        points = self.to_disc(X)
        if self.intercept is not None:
            return np.asarray(points @ self.normal.T + self.intercept)
        return np.column_stack(
            [log_map(p, points, c=self.curvature) @ w for p, w in zip(self.reference, self.normal, strict=True)]
        )

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return each class's probability by Platt scaling (Appendix H), rows summing to 1."""
        scores = self.decision_function(X)
        A = self.platt[:, 0]
        B = self.platt[:, 1]
        p = 0.5 * (1.0 - np.tanh((A * scores + B) / 2.0))
        if self.classes == 2:
            return np.column_stack([1.0 - p[:, 0], p[:, 0]])
        total = p.sum(axis=1, keepdims=True)
        p = np.where(total > 0, p, 1.0)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the class of each row: a number, or a name after `for_site`.

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
        if self.intercept is not None:
            arrays["intercept"] = self.intercept
        return arrays, {"classes": self.classes, "curvature": self.curvature, "names": list(self.names)}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> HullModel:
        """Build the model from a file's content."""
        try:
            made = cls(
                arrays["reference"],
                arrays["normal"],
                arrays["platt"],
                int(facts["classes"]),
                float(facts["curvature"]),
                arrays.get("embedding"),
                arrays.get("scales"),
                tuple(facts["names"]),
                arrays.get("intercept"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the file holds no hulls model: {error} is missing or wrong") from error
        # A number of classes that no array bears out would cost whoever writes their names down as much as it says.
        count = 1 if made.classes == 2 else made.classes
        shape = np.shape(made.reference)
        if len(shape) != 2 or shape != (count, 2) or not shape == made.normal.shape == made.platt.shape:
            raise InputError(f"the file has hyperplanes of shape {shape} for {made.classes} classes")
        if made.intercept is not None and made.intercept.shape != (count,):
            raise InputError(f"the file has intercepts of shape {made.intercept.shape}; wanted ({count},)")
        if made.names and len(made.names) != made.classes:
            raise InputError(f"the file has {len(made.names)} names for {made.classes} classes")
        wide = None if made.embedding is None else len(np.atleast_1d(made.embedding))
        for array, wanted in ((made.embedding, (wide, 2)), (made.scales, (2, wide))):
            if array is not None and array.shape != wanted:
                raise InputError(f"the file's map or scale has shape {array.shape}; wanted {wanted}")
        return made

"""The model of a run, and the columns that sites may add to their tables (Section 3.2, Appendix D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry.topology.descriptors import describe, persistence_entropy
from fedgeom.geometry.topology.persistence import rips_diagrams, subsample
from fedgeom.methods.iterative.model import TrainedModel

ADDED = 4
"""The distance of a row to the centre of the cloud, the entropies of H0 and H1, a Betti number."""


@dataclass(frozen=True)
class CloudShape:
    """What a site needs to know of its own cloud to add the four columns to any row."""

    centre: Floats
    """(columns,): the centre of the cloud."""
    constants: Floats
    """(3,), (48,) or (51,): the same for all of the site's rows, where they only move intercepts; sites differ."""

    @classmethod
    def of(
        cls,
        rows: Floats,
        points: int,
        rng: np.random.Generator,
        added: tuple[Literal["columns", "descriptor"], ...] = ("columns",),
    ) -> CloudShape:
        """Look at a subsample of the (scaled) rows; ``added`` says which numbers are wanted."""
        cloud = rows[subsample(len(rows), points, rng)]
        diagrams = rips_diagrams(cloud)
        deaths = diagrams.h0[:, 1]
        # β0 at the median merge scale, per point, so that it does not tell small sites from large ones.
        alive = float(np.mean(deaths > np.median(deaths))) if len(deaths) else 0.0
        entropies = [persistence_entropy(diagrams.h0), persistence_entropy(diagrams.h1)]
        four = [*entropies, alive] if "columns" in added else []
        numbers = describe(diagrams, size_free=True).tolist() if "descriptor" in added else []
        return cls(cloud.mean(axis=0) if four else np.empty(0), np.array([*four, *numbers]))

    def add_to(self, rows: Floats) -> Floats:
        """Return the rows with the site's columns at the end."""
        constants = np.tile(self.constants, (len(rows), 1))
        if not self.centre.size:
            return np.column_stack([rows, constants])
        away = np.linalg.norm(rows - self.centre, axis=1) / np.sqrt(max(rows.shape[1], 1))
        return np.column_stack([rows, away, constants])


@dataclass(frozen=True, repr=False)
class TopoModel(TrainedModel):
    """The joint model θ̄; `for_site` gives a site its cluster's model, with its own columns."""

    shape: CloudShape | None = None
    augmented: bool = False

    def for_site(self, local: Mapping[str, Any]) -> TopoModel:
        """Return a site's own model, from what it learnt in the run (``run.local[site]``)."""
        own = super().for_site(local)
        assert isinstance(own, TopoModel)
        if not self.augmented:
            return own
        shape = CloudShape(np.asarray(local["shape centre"], float), np.asarray(local["shape constants"], float))
        return replace(own, shape=shape)

    @property
    def everywhere(self) -> bool:
        """Whether the model predicts as it is: not where sites add columns on their own shape, which is missing."""
        return super().everywhere and (not self.augmented or self.shape is not None)

    def features(self, rows: Floats) -> Floats:
        """Add the site's columns, where the run was trained with them."""
        if not self.augmented:
            return rows
        if self.shape is None:
            raise InputError("rows are described by the site's own cloud; use model.for_site(run.local[site])")
        return np.asarray(self.shape.add_to(rows), rows.dtype)

    def tensors(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arrays and facts of the model file."""
        arrays, facts = super().tensors()
        if self.shape is not None:
            arrays |= {"shape/centre": self.shape.centre, "shape/constants": self.shape.constants}
        return arrays, facts | {"augmented": self.augmented}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> TopoModel:
        """Build the model from a file's content."""
        own = {name: value for name, value in arrays.items() if name.startswith("shape/")}
        plain = super().from_tensors({name: a for name, a in arrays.items() if name not in own}, facts)
        shape = CloudShape(own["shape/centre"], own["shape/constants"]) if own else None
        return cls(**{**vars(plain), "shape": shape, "augmented": bool(facts.get("augmented"))})

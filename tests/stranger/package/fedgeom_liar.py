"""A package that offers things under new names which call themselves by fedgeom's own when they are loaded."""

from __future__ import annotations

from dataclasses import dataclass

from fedgeom.extend import Aggregation


@dataclass(frozen=True)
class Mean(Aggregation):
    """Calls itself the mean."""

    name = "mean"

    def __call__(self, vectors, weights):
        return vectors[0]

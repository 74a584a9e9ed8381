"""Parameters as named arrays for learners, and as one flat vector for the rows of the table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError

Vector = npt.NDArray[np.float64]
Parameters = dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Layout:
    """Where each named array lies in the flat vector w of the papers.

    >>> layout = Layout.of({"weights": np.zeros((2, 1)), "intercept": np.zeros(1)})
    >>> layout.unpack(np.array([3.0, 1.0, 2.0]))["weights"].ravel().tolist()
    [1.0, 2.0]
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, parameters: Mapping[str, npt.NDArray[np.float64]]) -> Layout:
        """Lay arrays out in the order of their names."""
        names = tuple(sorted(parameters))
        return cls(names, tuple(tuple(parameters[name].shape) for name in names))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of entries of each array."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @cached_property
    def size(self) -> int:
        """The number of entries in all."""
        return sum(self.sizes)

    def pack(self, parameters: Mapping[str, npt.ArrayLike]) -> Vector:
        """Write named arrays into one vector."""
        if set(parameters) != set(self.names):
            raise InputError(f"arrays {sorted(parameters)} were given; wanted {list(self.names)}")
        if not self.names:
            return np.empty(0)
        return np.concatenate([np.asarray(parameters[name], np.float64).ravel() for name in self.names])

    def unpack(self, vector: Vector) -> Parameters:
        """Read the named arrays out of a vector (as views)."""
        if vector.shape != (self.size,):
            raise InputError(f"a vector of shape {vector.shape} was given; this learner has {self.size} entries")
        found, at = {}, 0
        for name, shape, size in zip(self.names, self.shapes, self.sizes, strict=True):
            found[name] = vector[at : at + size].reshape(shape)
            at += size
        return found

    def mask(self, names: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Mark the entries of the arrays with these names."""
        wanted = set(names)
        unknown = sorted(wanted - set(self.names))
        if unknown:
            raise InputError(f"there are no arrays {', '.join(unknown)}; there are: {', '.join(self.names)}")
        parts = [np.full(size, name in wanted) for name, size in zip(self.names, self.sizes, strict=True)]
        return np.concatenate(parts) if parts else np.empty(0, bool)

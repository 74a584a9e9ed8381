"""A frozen network as a feature map: a torch module that is installed at every site (``fedgeom[torch]``).

A package registers a subclass of `FrozenNetwork` with a name; sites that do not have it refuse the terms. Its weights
never travel: they come with the package, and everybody must have the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.methods.ridge.features import FeatureContext, FeatureMap
from fedgeom.methods.ridge.image_features import blocks

_ROWS = 64


@dataclass(frozen=True)
class FrozenNetwork(FeatureMap):
    """The outputs of a torch module; a subclass says its name, how many outputs there are, and makes the module.

    Rows become tensors of single precision: (rows, channels, height, width) where the settings say a shape, otherwise
    (rows, columns). What the module makes of the cells' unit is its own affair.
    """

    dtype: ClassVar[type[np.floating[Any]]] = np.float32
    outputs: ClassVar[int]
    """How many features there are."""
    reach: ClassVar[float] = 100.0
    """Outputs beyond it, on either side, are cut off: sums have as many digits as it leaves."""

    def module(self) -> Any:
        """Return the torch module, with its weights."""
        raise NotImplementedError(f"{type(self).__name__} has no module")

    def width(self, columns: int | None, shape: Sequence[int]) -> int | None:
        """Return the number of outputs."""
        return self.outputs

    @property
    def mean_square(self) -> float:
        """No output exceeds the reach."""
        return self.reach**2

    def transform(self, X: npt.NDArray[Any], ground: FeatureContext) -> npt.NDArray[Any]:
        """Return the module's outputs, without gradients and in evaluation mode."""
        import torch  # heavy, and an extra

        network = self.module().eval()
        out = np.empty((len(X), self.outputs), np.float32)
        for some in blocks(len(X), _ROWS):
            rows = np.array(X[some], np.float32)
            if ground.shape:
                rows = np.ascontiguousarray(rows.reshape(len(rows), *ground.shape).transpose(0, 3, 1, 2))
            with torch.no_grad():
                found = network(torch.from_numpy(rows)).reshape(len(rows), -1).numpy()
            if found.shape[1] != self.outputs or not np.isfinite(found).all():
                raise InputError(
                    f"the network {self.name!r} gave {found.shape[1]} outputs of a row; wanted {self.outputs} finite "
                    "ones"
                )
            out[some] = np.clip(found, -self.reach, self.reach)
        return out

"""A fixed head on the sphere: each class has a direction, all at right angles to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.heads.base import Head

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Orthonormal(Head):
    """Scores are cosines with fixed directions at right angles, the same at all sites (SphereFed, Dong et al. 2022)."""

    name: ClassVar[str] = "orthonormal"

    seed: Annotated[int, Between(0, 2**31)] = 0
    """Draws the directions."""
    fitted: bool = False
    """Whether the directions are a part of the model, so that they can be fitted (`SphereFed.calibration`)."""

    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return the fixed head; there are no more right angles than features."""
        if features < classes:
            raise InputError(
                f"{features} features and {classes} classes: at most {features} directions stand at right angles; give "
                f"the network features={classes} or more"
            )
        from fedgeom.methods.iterative.heads.modules import Directions, FixedDirections  # torch is optional

        drawn = np.random.default_rng(self.seed).normal(size=(features, classes))
        return (Directions if self.fitted else FixedDirections)(np.linalg.qr(drawn)[0].T)

"""Torch modules of heads; only imported where torch is."""

from __future__ import annotations

import numpy as np
import torch

from fedgeom.arrays import Floats


class FixedDirections(torch.nn.Module):
    """Cosines of the features with fixed directions."""

    directions: torch.Tensor

    def __init__(self, directions: Floats):
        """Take the directions, (classes, features), of norm 1."""
        super().__init__()
        self.register_buffer("directions", torch.from_numpy(directions.astype(np.float32)), persistent=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the cosines, (rows, classes)."""
        return torch.nn.functional.normalize(features, dim=1) @ self.directions.T


class Directions(torch.nn.Module):
    """Products of the features' directions with one vector for each class, which is a part of the model."""

    def __init__(self, directions: Floats):
        """Begin with directions, (classes, features)."""
        super().__init__()
        self.weight = torch.nn.Parameter(torch.from_numpy(directions.astype(np.float32)))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the products, (rows, classes)."""
        return torch.nn.functional.normalize(features, dim=1) @ self.weight.T


class TwoHeads(torch.nn.Module):
    """The sum of a generic head and a personal one, which starts at zero."""

    def __init__(self, features: int, classes: int):
        super().__init__()
        self.generic = torch.nn.Linear(features, classes)
        self.personal = torch.nn.Linear(features, classes)
        torch.nn.init.zeros_(self.personal.weight)
        torch.nn.init.zeros_(self.personal.bias)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return both heads' scores, added, (rows, classes)."""
        found: torch.Tensor = self.generic(features) + self.personal(features)
        return found

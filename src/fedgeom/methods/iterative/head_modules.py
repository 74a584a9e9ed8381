"""Torch modules of heads; only imported where torch is."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from fedgeom.arrays import Floats
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.geometry.hyperbolic import poincare, torch_ball


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


class PoincareModule(torch.nn.Module):
    """Features (rows, d) to scores (rows, classes): minus the distances to the prototypes."""

    branches: torch.Tensor
    """(branches, classes), f4: 1 where the branch holds the class, one branch after the other, from the top down."""
    apart: torch.Tensor
    """(classes, classes), f4: tree distances."""

    points: torch.Tensor
    """(classes, d), f4: the prototypes, where they are not trained."""
    on_ball: tuple[str, ...] = ()
    """Parameters that stand for points of the ball, as tangent vectors at the origin, and move by Riemannian SGD."""

    def __init__(self, points: Floats, prototypes: Literal["fixed", "trained", "own"], tree: ClassTree | None):
        super().__init__()
        self.trained = prototypes == "trained"
        if self.trained:
            self.tangents = torch.nn.Parameter(torch.from_numpy(poincare.log0(points)).float())
        else:
            self.register_buffer("points", torch.from_numpy(points).float(), persistent=prototypes == "own")
        branches = np.empty((0, len(points))) if tree is None else tree.above[tree.classes].T[1:]
        apart = np.zeros((len(points), len(points))) if tree is None else tree.distances()
        self.register_buffer("branches", torch.from_numpy(np.array(branches)).float(), persistent=False)
        self.register_buffer("apart", torch.from_numpy(np.array(apart)).float(), persistent=False)

    @property
    def prototypes(self) -> torch.Tensor:
        """(classes, d), f4: points of the ball."""
        return torch_ball.exp0(self.tangents) if self.trained else self.points

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return -torch_ball.distances(features, self.prototypes)

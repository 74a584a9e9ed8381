"""The head of prototypes as a torch module; needs torch."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from fedgeom.arrays import Floats
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.geometry.hyperbolic import poincare, torch_ball


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

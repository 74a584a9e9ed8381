"""The usual head: one linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedgeom.methods.iterative.heads.base import Head

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Linear(Head):
    """Scores are a linear function of the features."""

    name: ClassVar[str] = "linear"

    bias: bool = True
    """Whether each class has a constant of its own."""

    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return a linear layer as torch initialises it."""
        import torch  # optional

        return torch.nn.Linear(features, classes, bias=self.bias)

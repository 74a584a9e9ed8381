"""Two heads on one body: one for everybody, one for the site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedgeom.methods.iterative.heads.base import Head

if TYPE_CHECKING:
    import torch

PERSONAL = ("head.personal.weight", "head.personal.bias")
"""The arrays of the personal head, as they are called in a network."""


@dataclass(frozen=True)
class Two(Head):
    """A generic linear head and a personal one, whose scores are added (FedRoD, Chen and Chao 2022).

    The personal one starts at zero, so that a model without it predicts by the generic head alone.
    """

    name: ClassVar[str] = "two"

    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return both heads in one module."""
        from fedgeom.methods.iterative.heads.modules import TwoHeads  # needs torch, which is optional

        return TwoHeads(features, classes)

"""A loss for two heads on one body: a balanced risk for everybody, the plain one for the site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedgeom.errors import InputError
from fedgeom.methods.iterative.losses.base import Batch, Loss
from fedgeom.methods.iterative.losses.softmax import balanced_scores, cross_entropy

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Decoupled(Loss):
    """Balanced softmax for body and generic head; cross-entropy of both heads' sum for the personal one (FedRoD).

    Chen and Chao 2022: the second part changes the personal head alone.
    """

    name: ClassVar[str] = "decoupled"

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the sum of both mean losses."""
        head: Any = batch.network.head
        if not hasattr(head, "personal"):
            raise InputError('loss="decoupled" is for two heads; use head="two"')
        generic = head.generic(batch.features)
        both = generic.detach() + head.personal(batch.features.detach())
        return cross_entropy(batch, balanced_scores(batch, generic)) + cross_entropy(batch, both)

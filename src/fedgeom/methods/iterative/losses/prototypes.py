"""A loss that pulls features towards the prototypes of all sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.losses.base import Batch, Loss
from fedgeom.methods.iterative.losses.softmax import cross_entropy

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TowardsPrototypes(Loss):
    """Cross-entropy + λ·mean square of z − C_y, with the prototype C_y of the row's class (FedProto, Tan et al. 2022).

    The algorithm gives ``prototypes``, (classes, d), and ``counts``, (classes,); a class that nobody has counted yet
    pulls nothing.
    """

    name: ClassVar[str] = "prototypes"

    lam: Annotated[float, Between(0)] = 1.0
    """λ: the strength of the pull."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss."""
        if not {"prototypes", "counts"} <= set(batch.given):
            raise InputError('loss="prototypes" needs the prototypes that FedProto gives; use fedgeom.FedProto')
        known = (batch.given["counts"][batch.labels] > 0).float()
        away = batch.features - batch.given["prototypes"][batch.labels]
        return cross_entropy(batch, batch.scores) + self.lam * batch.mean(known * away.square().mean(dim=1))

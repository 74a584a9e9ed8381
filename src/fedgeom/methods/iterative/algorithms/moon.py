"""MOON: model-contrastive training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.losses.contrastive import Contrastive
from fedgeom.methods.iterative.network_settings import LossOrName, NetworkOrName


@dataclass(frozen=True, kw_only=True)
class Moon(Algorithm):
    """FedAvg whose sites keep features near the joint model's and away from those of their own before.

    Li, He and Song 2021. Each site keeps its last model for that.
    """

    name: ClassVar[str] = "moon"

    network: NetworkOrName | None = "mlp"
    """A network: features are what is compared."""
    loss: LossOrName = Contrastive.name
    """Contrastive(mu=1.0, temperature=0.5)."""

"""FedLC: logits calibrated by the site's class counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.losses.softmax import Calibrated
from fedgeom.methods.iterative.network_settings import LossOrName, NetworkOrName


@dataclass(frozen=True, kw_only=True)
class FedLC(Algorithm):
    """FedAvg whose sites give rare classes larger margins (Zhang et al. 2022)."""

    name: ClassVar[str] = "fedlc"

    network: NetworkOrName | None = "mlp"
    """A network; losses other than cross-entropy are for networks."""
    loss: LossOrName = Calibrated.name
    """Calibrated(tau=1.0)."""

"""Interpolation: each site ends with a mixture of the joint model and its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedgeom.methods.iterative.algorithms.fedavg import FedAvg


@dataclass(frozen=True, kw_only=True)
class Interpolated(FedAvg):
    """FedAvg, then at each site (1 − a)·joint + a·local, with a chosen by cross-validation there (or ``mix``)."""

    name: ClassVar[str] = "interpolated"

    personal: Literal["none", "finetuned", "interpolated"] = "interpolated"

"""Interpolation: each site ends with a mixture of the joint model and its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.rule import PersonalOrName


@dataclass(frozen=True, kw_only=True)
class Interpolated(Algorithm):
    """FedAvg, then at each site (1 − a)·joint + a·local, with a chosen by cross-validation there."""

    name: ClassVar[str] = "interpolated"

    personal: PersonalOrName = "interpolated"
    """The mixture; `Interpolation(0.5)` fixes a."""

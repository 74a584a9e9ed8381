"""FedAvg: train at the sites, average, repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.private_settings import PrivateTraining


@dataclass(frozen=True, kw_only=True)
class FedAvg(PrivateTraining, Algorithm):
    """Sites train the joint model on their rows; the mean of their models is the next joint model.

    McMahan et al. 2017, Algorithm 1: w ← Σ n_k/n · w_k. It is what an `Algorithm` does where nothing else is said.
    """

    name: ClassVar[str] = "fedavg"

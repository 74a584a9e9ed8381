"""SphereFed: features on the sphere, classes at fixed right angles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.heads.sphere import Orthonormal
from fedgeom.methods.iterative.losses.softmax import SquaredError
from fedgeom.methods.iterative.network_settings import HeadOrName, LossOrName, NetworkOrName


@dataclass(frozen=True, kw_only=True)
class SphereFed(Algorithm):
    """FedAvg of the body under a fixed orthonormal head, with the squared error of cosines (Dong et al. 2022).

    The paper's last step, a head that is fitted anew in closed form, is not part of it.
    """

    name: ClassVar[str] = "spherefed"

    network: NetworkOrName | None = "mlp"
    """A network with at least as many features as there are classes."""
    head: HeadOrName = Orthonormal.name
    """The fixed head."""
    loss: LossOrName = SquaredError.name
    """½·‖cosines − one-hot‖²."""

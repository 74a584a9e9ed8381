"""The settings of networks and of the steps that train them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.augmentation import Augmentation
from fedgeom.methods.iterative.heads.base import Head
from fedgeom.methods.iterative.heads.linear import Linear
from fedgeom.methods.iterative.losses.base import Loss
from fedgeom.methods.iterative.losses.softmax import CrossEntropy
from fedgeom.methods.iterative.networks.base import Network
from fedgeom.methods.iterative.optimizer import SGD, Optimizer

if TYPE_CHECKING:
    NetworkOrName = str | Network | dict[str, Any]
    HeadOrName = str | Head | dict[str, Any]
    LossOrName = str | Loss | dict[str, Any]
    OptimizerOrName = str | Optimizer | dict[str, Any]
    AugmentationOrName = str | Augmentation | dict[str, Any]
else:  # choices are read from names and tables
    NetworkOrName, HeadOrName, LossOrName = Network, Head, Loss
    OptimizerOrName, AugmentationOrName = Optimizer, Augmentation


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """A network, its head and loss, and how it is trained."""

    network: NetworkOrName | None = None
    """A network that comes along, instead of a learner: "mlp", "lenet", "convnet", "resnet8", LeNet(embedding=20)."""
    head: HeadOrName = Linear.name
    """What the network's features become scores by: "linear", "orthonormal", …"""
    loss: LossOrName = CrossEntropy.name
    """What sites minimise over their rows: "cross-entropy", "balanced", Calibrated(0.5), …; others than the first are
    for networks."""
    shape: tuple[Annotated[int, Between(1, 10**6)], ...] | None = None
    """What a row is to the network, (channels, height, width) for images; None: as many numbers as columns."""
    optimizer: OptimizerOrName = SGD.name
    """How steps follow from gradients: "sgd", SGD(momentum=0.9), "adamw"; each round begins anew."""
    clip: Annotated[float, POSITIVE] | None = None
    """The largest norm of a step's gradient; longer ones are shortened."""
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    """"balanced": rows are drawn so that all classes of a site come equally often."""
    augmentation: AugmentationOrName = "none"
    """How rows are changed before a step: "none", Crops(pad=4, flip=0.5) for images, Mixed(0.5): mixed two by two."""

    @property
    def loss_of_rows(self) -> Loss:
        """The loss itself."""
        assert isinstance(self.loss, Loss)
        return self.loss

    def step_options(self) -> dict[str, Any]:
        """Return what says how steps are taken."""
        return {name: getattr(self, name) for name in ("optimizer", "clip", "sampling", "augmentation")}

    def network_options(self) -> dict[str, Any]:
        """Return what a network is built with, as it travels and stands in a model file."""
        network, head = self.network, self.head
        assert isinstance(network, Network)
        assert isinstance(head, Head)
        return {
            "network": network.plain(),
            "head": head.plain(),
            "shape": None if self.shape is None else list(self.shape),
        }

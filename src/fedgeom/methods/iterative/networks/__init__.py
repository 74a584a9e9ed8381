"""Networks: bodies that make features of rows, of which a head makes scores.

Layers of our own are in `fedgeom.methods.iterative.networks.layers`, which needs torch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between, Choice

if TYPE_CHECKING:
    import torch


Norm = Literal["none", "group", "ws", "batch"]
""""group": GroupNorm; "ws": weight-standardised layers with GroupNorm; "batch": BatchNorm, whose means travel."""


@dataclass(frozen=True)
class Network(Choice):
    """The body of a model; torch initialises it, from the run's seed."""

    kind: ClassVar[str] = "network"

    embedding_dim: Annotated[int, Between(1, 4096)] | None = field(default=None, kw_only=True)
    """d: a last linear layer to so many features, which may be negative; None: the features are those that the network
    has, after its last ReLU."""

    @property
    @abstractmethod
    def own_width(self) -> int:
        """How many features there are without an embedding."""

    @property
    def width(self) -> int:
        """d: how many features the body makes."""
        return self.embedding_dim or self.own_width

    @abstractmethod
    def layers(self, shape: tuple[int, ...]) -> list[torch.nn.Module]:
        """Return the layers, (rows, *shape) to (rows, own_width)."""

    def build(self, shape: tuple[int, ...]) -> torch.nn.Module:
        """Return the body, (rows, *shape) to (rows, width)."""
        from torch import nn  # optional

        last = [nn.Linear(self.own_width, self.embedding_dim)] if self.embedding_dim else []
        return nn.Sequential(*self.layers(shape), *last)


def image_shape(shape: tuple[int, ...], name: str, least: int) -> tuple[int, int, int]:
    """Return (channels, height, width), or refuse rows that are no images, or smaller than ``least`` pixels a side."""
    if len(shape) != 3 or min(shape[1:]) < least:
        raise InputError(
            f"network={name!r} takes images of at least {least} × {least} pixels; rows of shape {shape} were given: "
            "say shape=(channels, height, width)"
        )
    return shape[0], shape[1], shape[2]


def own_network(name: str, build: Callable[[tuple[int, ...]], torch.nn.Module], width: int) -> Network:
    """Make a body of one's own known by a name, for every algorithm that takes a network, whatever its head.

    Parameters
    ----------
    name: text
        By this name a site finds it; elsewhere it comes by an entry point of the group ``fedgeom.networks``.
    build: a function
        From what a row is, (columns,) or (channels, height, width), to a `torch.nn.Module`: (rows, *shape) to
        (rows, width). torch's generator is seeded by the run while it is called.
    width: a whole number
        How many features it makes.

    Returns
    -------
    Network
        For ``network=``: ``HyperFed(network=own_network("mine", build, 32))``.
    """
    if not callable(build) or hasattr(build, "state_dict"):
        raise InputError(
            f"build: a {type(build).__name__} was given; wanted a function that builds the module anew at each site, "
            "build(shape), with shape (columns,) or (channels, height, width)"
        )
    columns = width

    def own_width(self: Network) -> int:
        return columns

    def layers(self: Network, shape: tuple[int, ...]) -> list[torch.nn.Module]:
        return [build(shape)]

    body = {
        "name": name,
        "own_width": property(own_width),
        "layers": layers,
        "__doc__": "A body of one's own.",
        "__module__": getattr(build, "__module__", __name__),
        "__qualname__": getattr(build, "__qualname__", name),
    }
    kind: Any = dataclass(frozen=True)(type(name, (Network,), body))
    made: Network = kind()
    return made


@dataclass(frozen=True)
class MLP(Network):
    """``depth`` hidden layers of ``hidden`` units and one of ``features``, each with its activation."""

    name: ClassVar[str] = "mlp"

    features: Annotated[int, Between(1, 4096)] = 32
    """The units of the last layer."""
    hidden: Annotated[int, Between(1, 8192)] = 64
    """The units of each hidden layer."""
    depth: Annotated[int, Between(0, 20)] = 1
    """How many hidden layers come before the features."""
    dropout: Annotated[float, Between(0, 1, open_high=True)] = 0.0
    """The share of hidden units that are left out of each step."""
    activation: Literal["relu", "none"] = "relu"
    """What follows each layer; "none": all layers together are one linear map of few dimensions."""

    @property
    def own_width(self) -> int:
        """The features."""
        return self.features

    def layers(self, shape: tuple[int, ...]) -> list[torch.nn.Module]:
        """Return the layers for rows of a shape."""
        from torch import nn  # optional

        parts: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
        inputs = math.prod(shape)
        bent = [nn.ReLU()] if self.activation == "relu" else []
        for _ in range(self.depth):
            parts += [nn.Linear(inputs, self.hidden), *bent]
            parts += [nn.Dropout(self.dropout)] if self.dropout else []
            inputs = self.hidden
        return [*parts, nn.Linear(inputs, self.features), *bent]


Width = Annotated[int, Between(1, 4096)]


@dataclass(frozen=True)
class LeNet(Network):
    """Two convolutions of 5 × 5 with 6 and 16 channels, then 120 and ``features`` units (LeCun et al. 1998, with ReLU).

    With 28 × 28 pixels and a linear head it has the 44,426 parameters of the network in Li et al. 2022 (NIID-Bench).
    """

    name: ClassVar[str] = "lenet"

    features: Width = 84
    """The units of the last layer."""
    norm: Norm = "none"
    """What normalises the channels."""

    @property
    def own_width(self) -> int:
        """The features."""
        return self.features

    def layers(self, shape: tuple[int, ...]) -> list[torch.nn.Module]:
        """Return the layers for images of a shape."""
        channels, height, width = image_shape(shape, self.name, 16)
        from torch import nn  # optional

        from fedgeom.methods.iterative.networks.layers import conv, normalise  # needs torch

        sides = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        return [
            conv(channels, 6, 5, self.norm),
            normalise(6, self.norm),
            nn.ReLU(),
            nn.MaxPool2d(2),
            conv(6, 16, 5, self.norm),
            normalise(16, self.norm),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * sides[0] * sides[1], 120),
            nn.ReLU(),
            nn.Linear(120, self.features),
            nn.ReLU(),
        ]


@dataclass(frozen=True)
class ConvNet(Network):
    """Three convolutions of 3 × 3, each followed by a pool of 2 × 2, and a linear layer to the features."""

    name: ClassVar[str] = "convnet"

    features: Width = 64
    """The units of the last layer."""
    channels: Width = 32
    """Of the first convolution; the others have twice as many."""
    norm: Norm = "group"
    """What normalises the channels."""

    @property
    def own_width(self) -> int:
        """The features."""
        return self.features

    def layers(self, shape: tuple[int, ...]) -> list[torch.nn.Module]:
        """Return the layers for images of a shape."""
        inputs, height, width = image_shape(shape, self.name, 8)
        from torch import nn  # optional

        from fedgeom.methods.iterative.networks.layers import conv, normalise  # needs torch

        layers: list[nn.Module] = []
        for outputs in (self.channels, 2 * self.channels, 2 * self.channels):
            layers += [conv(inputs, outputs, 3, self.norm, padding=1), normalise(outputs, self.norm)]
            layers += [nn.ReLU(), nn.MaxPool2d(2)]
            inputs = outputs
        flat = inputs * (height // 8) * (width // 8)
        return [*layers, nn.Flatten(), nn.Linear(flat, self.features), nn.ReLU()]


@dataclass(frozen=True)
class Residual(Network):
    """A residual network of CIFAR's size: three stages of blocks, 6n + 2 layers in all (He et al. 2016, §4.2)."""

    depth: ClassVar[int]
    """How many layers there are with the head."""

    channels: Width = 16
    """Of the first stage; the others have two and four times as many."""
    norm: Norm = "group"
    """What normalises the channels."""

    @property
    def own_width(self) -> int:
        """The channels of the last stage."""
        return 4 * self.channels

    def layers(self, shape: tuple[int, ...]) -> list[torch.nn.Module]:
        """Return the layers for images of a shape."""
        channels, _, _ = image_shape(shape, self.name, 8)
        from torch import nn  # optional

        from fedgeom.methods.iterative.networks.layers import Block, conv, normalise  # needs torch

        first = self.channels
        layers: list[nn.Module] = [conv(channels, first, 3, self.norm, padding=1), normalise(first, self.norm)]
        layers.append(nn.ReLU())
        inputs = first
        for stage, outputs in enumerate((first, 2 * first, 4 * first)):
            for at in range((self.depth - 2) // 6):
                layers.append(Block(inputs, outputs, 2 if stage and not at else 1, self.norm))
                inputs = outputs
        return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()]


@dataclass(frozen=True)
class ResNet8(Residual):
    """The residual network with 8 layers."""

    name: ClassVar[str] = "resnet8"
    depth: ClassVar[int] = 8


@dataclass(frozen=True)
class ResNet14(Residual):
    """The residual network with 14 layers."""

    name: ClassVar[str] = "resnet14"
    depth: ClassVar[int] = 14


@dataclass(frozen=True)
class ResNet20(Residual):
    """The residual network with 20 layers."""

    name: ClassVar[str] = "resnet20"
    depth: ClassVar[int] = 20

"""Networks for images: LeNet, a small ConvNet, and the residual networks of CIFAR's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.networks.base import Network, Norm, image_shape

if TYPE_CHECKING:
    import torch

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

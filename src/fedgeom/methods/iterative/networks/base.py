"""What a network is here: a body with so many features, built for rows of a shape."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

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

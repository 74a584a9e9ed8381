"""What a network is here: a body with so many features, built for rows of a shape."""

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

"""What a network is here: a body with so many features, built for rows of a shape."""

from __future__ import annotations

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

    embedding: Annotated[int, Between(1, 4096)] | None = field(default=None, kw_only=True)
    """d: a last linear layer to so many features, which may be negative; None: the features are those that the network
    has, after its last ReLU."""

    @property
    @abstractmethod
    def own_width(self) -> int:
        """How many features there are without an embedding."""

    @property
    def width(self) -> int:
        """d: how many features the body makes."""
        return self.embedding or self.own_width

    @abstractmethod
    def layers(self, shape: tuple[int, ...]) -> list[torch.nn.Module]:
        """Return the layers, (rows, *shape) to (rows, own_width)."""

    def build(self, shape: tuple[int, ...]) -> torch.nn.Module:
        """Return the body, (rows, *shape) to (rows, width)."""
        from torch import nn  # optional

        last = [nn.Linear(self.own_width, self.embedding)] if self.embedding else []
        return nn.Sequential(*self.layers(shape), *last)


def image_shape(shape: tuple[int, ...], name: str, least: int) -> tuple[int, int, int]:
    """Return (channels, height, width), or refuse rows that are no images, or smaller than ``least`` pixels a side."""
    if len(shape) != 3 or min(shape[1:]) < least:
        raise InputError(
            f"network={name!r} takes images of at least {least} × {least} pixels; rows of shape {shape} were given: "
            "say shape=(channels, height, width)"
        )
    return shape[0], shape[1], shape[2]

"""A network for tables and cells: layers of units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.networks.base import Network

if TYPE_CHECKING:
    import torch


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
        inputs, bent = math.prod(shape), [nn.ReLU()] if self.activation == "relu" else []
        for _ in range(self.depth):
            parts += [nn.Linear(inputs, self.hidden), *bent]
            parts += [nn.Dropout(self.dropout)] if self.dropout else []
            inputs = self.hidden
        return [*parts, nn.Linear(inputs, self.features), *bent]

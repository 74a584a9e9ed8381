"""What a head is: it makes one score per class of features; the class with the largest is predicted."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedgeom.federation.settings import Choice

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Head(Choice):
    """The last part of a network.

    What is trained are the module's parameters. What is fixed, such as prototypes, is a buffer with
    ``persistent=False``: it follows from the settings and the numbers of features and classes alone, so every site, the
    coordinator and whoever loads the model build it anew, and it never travels.
    """

    kind: ClassVar[str] = "head"

    @abstractmethod
    def build(self, features: int, classes: int) -> torch.nn.Module:
        """Return the module, (rows, features) to (rows, classes); larger scores are likelier."""

    def trained_arrays(self, features: int) -> tuple[str, ...]:
        """Return the names of the module's parameters, which are the same for any number of classes."""
        return tuple(name for name, _ in self.build(features, 2).named_parameters())

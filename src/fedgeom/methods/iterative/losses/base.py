"""What a loss is, and what it may look at: one batch of a site's rows, and the models around it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

from fedgeom.federation.settings import Choice

if TYPE_CHECKING:
    import torch


class BodyAndHead(Protocol):
    """A network in two parts: the body makes features of rows, the head makes scores of features."""

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the features of rows, (rows, …) to (rows, d)."""

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return a score for each class, (rows, d) to (rows, classes); larger is likelier."""

    @property
    def head(self) -> torch.nn.Module:
        """The head itself."""


@dataclass
class Batch:
    """One step's rows and what a loss may look at; tensors are on the site's device."""

    inputs: torch.Tensor
    """(rows, …), f4: what the network sees."""
    labels: torch.Tensor
    """(rows,), i8: the index of each row's class."""
    network: BodyAndHead
    """The model in training."""
    counts: torch.Tensor
    """(classes,), f4: how many rows of each class the site trains on. They never leave it."""
    generator: torch.Generator
    """Randomness from the seed of the run, the round and the site; on the processor."""
    joint: BodyAndHead
    """The model that the site was given in this round; nothing of it is trained."""
    previous: BodyAndHead | None = None
    """The site's own model after its last round, for losses that look back; None in the first."""
    weights: torch.Tensor | None = None
    """(rows,), f4: what each row's loss is multiplied by; None: by 1."""
    given: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Arrays that the algorithm hands to its loss."""

    @cached_property
    def features(self) -> torch.Tensor:
        """The features of the rows, (rows, d), f4, of the model in training."""
        return self.network.features(self.inputs)

    @cached_property
    def scores(self) -> torch.Tensor:
        """The scores of the rows, (rows, classes), f4, of the model in training."""
        return self.network.scores(self.features)

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """Return the mean over the rows of each row's weight times its value, (rows,): little weight, short steps."""
        return values.mean() if self.weights is None else (values * self.weights).mean()


@dataclass(frozen=True)
class Loss(Choice):
    """The mean over a batch of what a model costs there."""

    kind: ClassVar[str] = "loss"
    plural: ClassVar[str] = "losses"
    looks_back: ClassVar[bool] = False
    """Whether the loss looks at the site's model of the round before, which the site then keeps."""

    @abstractmethod
    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss of a batch: one number, to be differentiated."""

"""How much a site trains in one round: steps or epochs of minibatch descent, or down to the optimum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, SHARE, Between, Choice
from fedgeom.methods.iterative.optimizer import SGD, Optimizer

if TYPE_CHECKING:
    import torch

    from fedgeom.methods.iterative.losses import Batch, Loss


@dataclass(frozen=True)
class Augmentation(Choice):
    """A random change of a batch's rows that keeps their labels, or a mixture of rows and labels."""

    kind: ClassVar[str] = "augmentation"

    @abstractmethod
    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return changed rows, (rows, …) as they came; ``generator`` is on the processor."""

    def loss(self, loss: Loss, batch: Batch) -> torch.Tensor:
        """Return the loss of a batch whose rows were changed; where rows are mixed, so are their losses."""
        return loss(batch)


@dataclass(frozen=True)
class NoAugmentation(Augmentation):
    """The rows as they are."""

    name: ClassVar[str] = "none"

    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return the rows."""
        return inputs


@dataclass(frozen=True)
class Crops(Augmentation):
    """Each image is moved by up to ``padding`` pixels, with zeros at the edge, and mirrored or not."""

    name: ClassVar[str] = "crops"

    padding: Annotated[int, Between(0, 64)] = 4
    """The most pixels to any side."""
    flip_probability: Annotated[float, SHARE] = 0.5
    """How often an image is mirrored, left to right."""

    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Move and mirror each image, (rows, channels, height, width)."""
        import torch  # optional

        if inputs.ndim != 4:
            raise InputError('augmentation="crops" is for images; say shape=(channels, height, width)')
        rows, _, height, width = inputs.shape
        down, across = torch.randint(0, 2 * self.padding + 1, (2, rows, 1), generator=generator).to(inputs.device)
        mirrored = (torch.rand(rows, 1, generator=generator) < self.flip_probability).to(inputs.device)
        padded = torch.nn.functional.pad(inputs, (self.padding,) * 4)
        y = down + torch.arange(height, device=inputs.device)  # (rows, height)
        x = torch.arange(width, device=inputs.device).expand(rows, width)
        x = across + torch.where(mirrored, width - 1 - x, x)
        at = torch.arange(rows, device=inputs.device)
        moved = padded.permute(0, 2, 3, 1)[at[:, None, None], y[:, :, None], x[:, None, :]]
        return moved.permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class Mixup(Augmentation):
    """Rows are mixed two by two, λx + (1 − λ)x′, and must name both classes in that proportion (Zhang et al. 2018).

    One λ ~ Beta(α, α) is drawn for every batch. The loss is λ·loss(labels) + (1 − λ)·loss(partners' labels), so that it
    goes with any loss. Images may be moved and mirrored before.
    """

    name: ClassVar[str] = "mixed"

    alpha: Annotated[float, POSITIVE] = 0.5
    """α: small: mostly one of the two rows; 1: any share is as likely."""
    padding: Annotated[int, Between(0, 64)] = 0
    """As in `Crops`; 0: images stay where they are."""
    flip_probability: Annotated[float, SHARE] = 0.0
    """As in `Crops`."""

    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Move and mirror images, where that is wanted; what is mixed is mixed with its labels."""
        return (
            Crops(self.padding, self.flip_probability)(inputs, generator)
            if self.padding or self.flip_probability
            else inputs
        )

    def loss(self, loss: Loss, batch: Batch) -> torch.Tensor:
        """Return the mixture of the losses of mixed rows under both rows' labels."""
        import torch  # optional

        partner = torch.randperm(len(batch.labels), generator=batch.generator).to(batch.labels.device)
        seed = int(torch.randint(2**31, (1,), generator=batch.generator))
        share = float(np.random.default_rng(seed).beta(self.alpha, self.alpha))  # torch's takes no generator
        mixed = replace(batch, inputs=share * batch.inputs + (1 - share) * batch.inputs[partner])
        weights = None if batch.weights is None else batch.weights[partner]
        other = replace(mixed, labels=batch.labels[partner], weights=weights)
        vars(other).update(features=mixed.features, scores=mixed.scores)  # the network looks at the rows once
        return share * loss(mixed) + (1 - share) * loss(other)


@dataclass(frozen=True)
class Effort:
    """One visit of local training."""

    epochs: int = 5
    """Passes over the site's rows."""
    steps: int | None = None
    """Gradient steps; None: as many as the epochs make."""
    batch_size: int | None = 32
    """Rows per step; None: all."""
    learning_rate: float = 0.1
    """η: the learning rate."""
    solver: Literal["sgd", "exact"] = "sgd"
    """"sgd": steps; "exact": until the objective is minimal (learners that can)."""
    only: npt.NDArray[np.int64] | None = None
    """(rows,): the rows that every step looks at, instead of batches."""
    least: int = 1
    """The fewest rows of a step that the site's policy allows (``min_batch_size``). A last batch with fewer is joined
    to the one before it; with fewer rows in all, the site does not train."""

    optimizer: Optimizer = field(default_factory=SGD)
    """How steps follow from gradients."""
    max_grad_norm: float | None = None
    """The largest norm of a step's gradient; longer ones are shortened."""
    sampling: Literal["shuffled", "balanced"] = "shuffled"
    """"shuffled": every row once an epoch; "balanced": drawn so that all classes of the site come equally often."""
    augmentation: Augmentation = field(default_factory=NoAugmentation)
    """How images are changed before a step."""

    def batches(
        self, rows: int, rng: np.random.Generator, labels: npt.NDArray[np.int64] | None = None
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the rows of each step: every epoch in a new order, without repetition unless they are balanced.

        labels (rows,): the classes that are balanced.
        """
        there = rows if self.only is None else len(self.only)
        if 0 < there < self.least:
            raise InputError(f"{there} rows are there to train on; the policy says min_batch_size = {self.least}")
        size = self.step_rows(rows)
        per_epoch = self.per_epoch(rows)
        chances = balance(labels) if self.sampling == "balanced" and labels is not None else None
        for at in range(self.count(rows)):
            if self.only is not None:
                yield self.only
                continue
            place = at % per_epoch
            if place == 0:
                order = rng.permutation(rows) if chances is None else rng.choice(rows, rows, p=chances)
            yield order[place * size : rows if place == per_epoch - 1 else (place + 1) * size]

    def per_epoch(self, rows: int) -> int:
        """Return how many steps make a pass over the rows; too small a rest is no step of its own."""
        size = self.step_rows(rows)
        whole, rest = divmod(rows, size) if size else (0, 0)
        return max(whole + (rest >= max(self.least, 1)), 1)

    def step_rows(self, rows: int) -> int:
        """Return how many rows a step looks at."""
        return rows if self.batch_size is None else min(self.batch_size, rows)

    def count(self, rows: int) -> int:
        """Return the number of gradient steps over this many rows."""
        if rows == 0:
            return 0
        return self.steps if self.steps is not None else self.epochs * self.per_epoch(rows)

    def only_plain(self, learner: str) -> None:
        """Refuse steps that a learner without torch does not take."""
        if not self.optimizer.bare or self.augmentation.name != "none":
            raise InputError(
                f"learner {learner!r} takes plain gradient steps; momentum, weight decay, other optimizers and "
                "augmentation are for torch modules and networks"
            )

    def shortened(self, gradient: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return a gradient, (numbers,), that is no longer than ``max_grad_norm``."""
        if self.max_grad_norm is None:
            return gradient
        norm = float(np.linalg.norm(gradient))
        return gradient * (self.max_grad_norm / norm) if norm > self.max_grad_norm else gradient


def balance(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return each row's chance to be drawn, (rows,), such that all classes that are there come equally often."""
    _, at, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(1 / (len(counts) * counts[at]))


USUAL = Effort()
"""The effort where nothing is said."""

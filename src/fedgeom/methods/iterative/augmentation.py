"""Augmentations: how rows are changed or mixed at random before a step, from the site's seeded generator."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, SHARE, Between, Choice

if TYPE_CHECKING:
    import torch

    from fedgeom.methods.iterative.losses.base import Batch, Loss


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
    """Each image is moved by up to ``pad`` pixels, with zeros at the edge, and mirrored or not."""

    name: ClassVar[str] = "crops"

    pad: Annotated[int, Between(0, 64)] = 4
    """The most pixels to any side."""
    flip: Annotated[float, SHARE] = 0.5
    """How often an image is mirrored, left to right."""

    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Move and mirror each image, (rows, channels, height, width)."""
        import torch  # optional

        if inputs.ndim != 4:
            raise InputError('augmentation="crops" is for images; say shape=(channels, height, width)')
        rows, _, height, width = inputs.shape
        down, across = torch.randint(0, 2 * self.pad + 1, (2, rows, 1), generator=generator).to(inputs.device)
        mirrored = (torch.rand(rows, 1, generator=generator) < self.flip).to(inputs.device)
        padded = torch.nn.functional.pad(inputs, (self.pad,) * 4)
        y = down + torch.arange(height, device=inputs.device)  # (rows, height)
        x = torch.arange(width, device=inputs.device).expand(rows, width)
        x = across + torch.where(mirrored, width - 1 - x, x)
        at = torch.arange(rows, device=inputs.device)
        moved = padded.permute(0, 2, 3, 1)[at[:, None, None], y[:, :, None], x[:, None, :]]
        return moved.permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class Mixed(Augmentation):
    """Rows are mixed two by two, λx + (1 − λ)x′, and must name both classes in that proportion (Zhang et al. 2018).

    One λ ~ Beta(α, α) is drawn for every batch. The loss is λ·loss(labels) + (1 − λ)·loss(partners' labels), so that it
    goes with any loss. Images may be moved and mirrored before.
    """

    name: ClassVar[str] = "mixed"

    alpha: Annotated[float, POSITIVE] = 0.5
    """α: small: mostly one of the two rows; 1: any share is as likely."""
    pad: Annotated[int, Between(0, 64)] = 0
    """As in `Crops`; 0: images stay where they are."""
    flip: Annotated[float, SHARE] = 0.0
    """As in `Crops`."""

    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Move and mirror images, where that is wanted; what is mixed is mixed with its labels."""
        return Crops(self.pad, self.flip)(inputs, generator) if self.pad or self.flip else inputs

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

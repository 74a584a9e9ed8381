"""Augmentations: how images are changed at random before a step, from the site's seeded generator."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from fedgeom.errors import InputError
from fedgeom.federation.settings import SHARE, Between, Choice

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Augmentation(Choice):
    """A random change of a batch's rows that keeps their labels."""

    kind: ClassVar[str] = "augmentation"

    @abstractmethod
    def __call__(self, inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return changed rows, (rows, …) as they came; ``generator`` is on the processor."""


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

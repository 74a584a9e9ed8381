"""Losses on the scores: cross-entropy, its kinds for sites that lack classes, and the squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.losses.base import Batch, Loss

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """−log softmax(scores) of each row's class."""

    name: ClassVar[str] = "cross-entropy"

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean cross-entropy."""
        return cross_entropy(batch, batch.scores)


@dataclass(frozen=True)
class Balanced(Loss):
    """Cross-entropy of scores that are raised by τ·log n_c: what is learnt is fit for classes that are equally many.

    Balanced softmax (Ren et al. 2020) and logit adjustment (Menon et al. 2021), with the site's counts n_c. A class
    that the site has not leaves the softmax, which is the limit of n_c → 0.
    """

    name: ClassVar[str] = "balanced"

    tau: Annotated[float, POSITIVE] = 1.0
    """τ: how much of the adjustment."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss."""
        return cross_entropy(batch, balanced_scores(batch, batch.scores, self.tau))


@dataclass(frozen=True)
class Calibrated(Loss):
    """Cross-entropy of scores that are lowered by τ·n_c^(−1/4): rare classes get larger margins (FedLC).

    Zhang et al. 2022. A class that the site has not leaves the softmax, which is the limit of n_c → 0.
    """

    name: ClassVar[str] = "calibrated"

    tau: Annotated[float, POSITIVE] = 1.0
    """τ: the width of the margins."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss."""
        return cross_entropy(batch, batch.scores - self.tau * batch.counts.pow(-0.25))  # 0 to the −1/4 is infinite


@dataclass(frozen=True)
class SquaredError(Loss):
    """½·‖scores − one-hot‖², for scores that are cosines (SphereFed)."""

    name: ClassVar[str] = "squared"

    scale: Annotated[float, Between(0, open_low=True)] = 1.0
    """What the scores are multiplied by first."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return half the mean squared error over the rows, summed over the classes."""
        import torch  # optional

        wanted = torch.nn.functional.one_hot(batch.labels, batch.scores.shape[1])
        return batch.mean(0.5 * (self.scale * batch.scores - wanted).square().sum(dim=1))


def cross_entropy(batch: Batch, scores: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of scores, (rows, classes), by the rows' weights."""
    import torch  # optional

    if batch.weights is None:
        return torch.nn.functional.cross_entropy(scores, batch.labels)
    return batch.mean(torch.nn.functional.cross_entropy(scores, batch.labels, reduction="none"))


def balanced_scores(batch: Batch, scores: torch.Tensor, tau: float = 1.0) -> torch.Tensor:
    """Return scores, (rows, classes), raised by τ·log n_c."""
    return scores + tau * batch.counts.log()

"""Losses on distances to prototypes (HyperFed); the triplets and the geodesic want the head "poincare".

With the distances d_c of a row's point to the prototypes, y its class and y' another:

    triplet          max(d_y - d_y' + m, 0)                        one y' drawn, or the mean over all
    public-triplet   the same, + 2·cross-entropy of cosines on mixed rows, as in the public code
    geodesic         d_y
    geodesic-softmax -ln softmax(-d/T)_y
    tree-softmax     the mean over the branches that hold y of -ln P(branch): a mistake within a branch costs less
    tree-targets     cross-entropy of softmax(-d) against targets that fall with the tree distance to y
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.heads.poincare import tree_of
from fedgeom.methods.iterative.losses.base import Batch, Loss

if TYPE_CHECKING:
    import torch

NOT_NEGATIVE = Between(0, 10**6)


@dataclass(frozen=True)
class Triplet(Loss):
    """The hyperbolic triplet loss (Eq. 7): nearer to the own prototype than to another, by a margin."""

    name: ClassVar[str] = "triplet"

    margin: Annotated[float, NOT_NEGATIVE] = 3.0
    """m; beyond the distance between two prototypes, which the slope sets, it cannot be reached."""
    negatives: Literal["one", "all"] = "one"
    """"one": another class is drawn for each row, as published; "all": the mean over all other classes."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean over the rows."""
        distances = -batch.scores
        own = distances.gather(1, batch.labels[:, None])
        if self.negatives == "one":
            hinge = (own - distances.gather(1, drawn_negatives(batch)[:, None]) + self.margin).clamp_min(0.0)[:, 0]
        else:
            classes = distances.shape[1]
            # The own class adds max(m, 0), a constant, which is taken off again.
            total = (own - distances + self.margin).clamp_min(0.0).sum(dim=1) - self.margin
            hinge = total / max(classes - 1, 1)
        return batch.mean(hinge)


@dataclass(frozen=True)
class PublicTriplet(Loss):
    """The loss of the paper's public code: the triplet with margin 1, and twice a mixup cross-entropy on cosines.

    Beside the batch it looks at rows mixed two by two, λx + (1 - λ)x' with one λ ~ Beta(a, a) for all, and asks the
    cosines between their points and the prototypes to name both classes in that proportion.
    """

    name: ClassVar[str] = "public-triplet"

    margin: Annotated[float, NOT_NEGATIVE] = 1.0
    mixing: Annotated[float, POSITIVE] = 0.5
    """a, of the Beta distribution."""
    mixed_weight: Annotated[float, NOT_NEGATIVE] = 2.0

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean over the rows."""
        import torch  # optional

        plain = Triplet(margin=self.margin)(batch)
        count = len(batch.labels)
        partner = torch.randperm(count, generator=batch.generator).to(batch.labels.device)
        seed = int(torch.randint(2**31, (1,), generator=batch.generator))
        share = float(
            np.random.default_rng(seed).beta(self.mixing, self.mixing)
        )  # torch's Beta takes no generator
        mixed = batch.network.features(share * batch.inputs + (1 - share) * batch.inputs[partner])
        prototypes = poincare_head(batch).prototypes
        cosines = torch.nn.functional.normalize(mixed, dim=1) @ prototypes.T
        cross = torch.nn.functional.cross_entropy
        losses = share * cross(cosines, batch.labels, reduction="none")
        losses = losses + (1 - share) * cross(cosines, batch.labels[partner], reduction="none")
        return plain + self.mixed_weight * batch.mean(losses)


@dataclass(frozen=True)
class Geodesic(Loss):
    """The mean distance to the own prototype, with nothing that pushes away ("HyperFed-Geodesic")."""

    name: ClassVar[str] = "geodesic"

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean over the rows."""
        return batch.mean(-batch.scores.gather(1, batch.labels[:, None])[:, 0])


@dataclass(frozen=True)
class GeodesicSoftmax(Loss):
    """The cross-entropy of a softmax over minus the distances."""

    name: ClassVar[str] = "geodesic-softmax"

    temperature: Annotated[float, POSITIVE] = 1.0
    """T; below 1 the softmax is sharper. Probabilities that a model reports have T = 1."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean over the rows."""
        import torch  # optional

        scores = batch.scores / self.temperature
        return batch.mean(torch.nn.functional.cross_entropy(scores, batch.labels, reduction="none"))


@dataclass(frozen=True)
class OnTree(Loss):
    """The base of losses along a class tree, for any head; the tree is the loss's own, or else the head's."""

    tree: tuple[str, ...] = field(default=(), kw_only=True)
    """The class tree as lines "child < parent"; none: that of the head "poincare"."""
    classes: tuple[str, ...] = field(default=(), kw_only=True)
    """The classes in their order, for a tree of the loss's own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tree:
            tree_of(self.tree, self.classes)  # refuses what is no tree of these classes

    def branches(self, batch: Batch) -> torch.Tensor:
        """Return which branches hold which classes, (branches, classes), f4."""
        if not self.tree:
            found: torch.Tensor = with_tree(batch).branches
            return found
        tree = tree_of(self.tree, self.classes)
        return self._tensor(tree.above[tree.classes].T[1:], batch)

    def apart(self, batch: Batch) -> torch.Tensor:
        """Return the tree distances, (classes, classes), f4."""
        if not self.tree:
            found: torch.Tensor = with_tree(batch).apart
            return found
        return self._tensor(tree_of(self.tree, self.classes).distances(), batch)

    def _tensor(self, values: Any, batch: Batch) -> torch.Tensor:
        import torch  # optional

        if values.shape[1] != batch.scores.shape[1]:
            raise InputError(
                f"the class tree has {values.shape[1]} classes; the sites agreed on {batch.scores.shape[1]}"
            )
        return torch.from_numpy(np.ascontiguousarray(values)).to(batch.scores)


@dataclass(frozen=True)
class TreeSoftmax(OnTree):
    """The mean over all branches of the class tree that hold a row's class of -ln P(branch)."""

    name: ClassVar[str] = "tree-softmax"

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean over the rows."""
        branches = self.branches(batch)
        chances = batch.scores.softmax(dim=1) @ branches.T
        holds = branches.T[batch.labels]
        losses = -(holds * chances.clamp_min(1e-12).log()).sum(dim=1) / holds.sum(dim=1).clamp_min(1.0)
        return batch.mean(losses)


@dataclass(frozen=True)
class TreeTargets(OnTree):
    """The cross-entropy against soft targets: classes near the own in the tree get a part."""

    name: ClassVar[str] = "tree-targets"

    softness: Annotated[float, POSITIVE] = 1.0
    """t: targets fall like exp(-tree distance / t)."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean over the rows."""
        targets = (-self.apart(batch) / self.softness).softmax(dim=1)[batch.labels]
        return batch.mean(-(targets * batch.scores.log_softmax(dim=1)).sum(dim=1))


def drawn_negatives(batch: Batch) -> torch.Tensor:
    """Draw for each row a class that is not its own, uniformly among all classes, also those the site has no row of."""
    import torch  # optional

    classes = batch.scores.shape[1]
    if classes < 2:
        raise InputError("a triplet needs a second class to be far from")
    step = torch.randint(1, classes, batch.labels.shape, generator=batch.generator).to(batch.labels.device)
    return (batch.labels + step) % classes


def poincare_head(batch: Batch) -> Any:
    """Return the head, which must have prototypes."""
    head = batch.network.head
    if not hasattr(head, "prototypes"):
        raise InputError('this loss looks at prototypes, which the head has none of; use head="poincare"')
    return head


def with_tree(batch: Batch) -> Any:
    """Return the head, which must have a class tree."""
    head = poincare_head(batch)
    if not len(head.branches):
        raise InputError(
            "this loss looks at a class tree; give it one, TreeTargets(tree=(…), classes=(…)), or the method: "
            "HyperFed(class_tree={child: parent, …})"
        )
    return head

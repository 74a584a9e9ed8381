"""Losses of one batch of a site's rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between, Choice
from fedgeom.methods.iterative.heads import tree_of

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
    measure: Callable[[Batch], torch.Tensor] | None = None
    """The loss that the settings name, on rows that the augmentation may mix."""

    @cached_property
    def features(self) -> torch.Tensor:
        """The features of the rows, (rows, d), f4, of the model in training."""
        return self.network.features(self.inputs)

    @cached_property
    def scores(self) -> torch.Tensor:
        """The scores of the rows, (rows, classes), f4, of the model in training."""
        return self.network.scores(self.features)

    def loss(self) -> torch.Tensor:
        """Return the loss of this batch that the settings name: one number, to be differentiated."""
        if self.measure is None:
            raise InputError("this batch has no loss of its own")
        return self.measure(self)

    def fresh(self) -> Batch:
        """Return the same rows, to be looked at anew after the module has changed."""
        return replace(self)

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
    """m of the triplet loss."""
    mixing: Annotated[float, POSITIVE] = 0.5
    """a, of the Beta distribution."""
    mixed_weight: Annotated[float, NOT_NEGATIVE] = 2.0
    """How much the loss of mixed rows weighs beside the triplet."""

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


@dataclass(frozen=True)
class Contrastive(Loss):
    """Cross-entropy + μ·ℓ: features near those of the joint model, away from the site's own before (MOON).

    Li, He and Song 2021: ℓ = −log(exp(sim(z, z_joint)/τ) / (exp(sim(z, z_joint)/τ) + exp(sim(z, z_before)/τ))), with
    cosines as similarities. In a site's first round there is no model before, and ℓ is left away.
    """

    name: ClassVar[str] = "contrastive"
    looks_back: ClassVar[bool] = True

    mu: Annotated[float, Between(0)] = 1.0
    """μ: the weight of the comparison."""
    temperature: Annotated[float, POSITIVE] = 0.5
    """τ"""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss."""
        from torch.nn.functional import cosine_similarity, softplus  # optional

        loss = cross_entropy(batch, batch.scores)
        if batch.previous is None or not self.mu:
            return loss
        near = cosine_similarity(batch.features, batch.joint.features(batch.inputs))
        far = cosine_similarity(batch.features, batch.previous.features(batch.inputs))
        # −log(e^a/(e^a + e^b)) = log(1 + e^(b − a))
        return loss + self.mu * batch.mean(softplus((far - near) / self.temperature))


@dataclass(frozen=True)
class NotTrue(Loss):
    """Cross-entropy + β·τ²·KL of the joint model's softmax from ours, over the classes that a row is not of (FedNTD).

    Lee et al. 2022, Eq. 5, with scores over τ. With two classes there is one other, and nothing to keep.
    """

    name: ClassVar[str] = "not-true"

    beta: Annotated[float, Between(0)] = 1.0
    """β: the weight of what is kept."""
    tau: Annotated[float, POSITIVE] = 1.0
    """τ: the temperature."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss."""
        import torch  # optional

        others = torch.nn.functional.one_hot(batch.labels, batch.scores.shape[1]) == 0
        joint = batch.joint.scores(batch.joint.features(batch.inputs))
        ours, wanted = (
            (scores[others].view(len(others), -1) / self.tau).log_softmax(dim=1)
            for scores in (batch.scores, joint)
        )
        kept = (wanted.exp() * (wanted - ours)).sum(dim=1)
        return cross_entropy(batch, batch.scores) + self.beta * self.tau**2 * batch.mean(kept)


@dataclass(frozen=True)
class Decoupled(Loss):
    """Balanced softmax for body and generic head; cross-entropy of both heads' sum for the personal one (FedRoD).

    Chen and Chao 2022: the second part changes the personal head alone.
    """

    name: ClassVar[str] = "decoupled"

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the sum of both mean losses."""
        head: Any = batch.network.head
        if not hasattr(head, "personal"):
            raise InputError('loss="decoupled" is for two heads; use head="two"')
        generic = head.generic(batch.features)
        both = generic.detach() + head.personal(batch.features.detach())
        return cross_entropy(batch, balanced_scores(batch, generic)) + cross_entropy(batch, both)


@dataclass(frozen=True)
class TowardsPrototypes(Loss):
    """Cross-entropy + λ·mean square of z − C_y, with the prototype C_y of the row's class (FedProto, Tan et al. 2022).

    The algorithm gives ``prototypes``, (classes, d), and ``counts``, (classes,); a class that nobody has counted yet
    pulls nothing.
    """

    name: ClassVar[str] = "prototypes"

    lam: Annotated[float, Between(0)] = 1.0
    """λ: the strength of the pull."""

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the mean loss."""
        if not {"prototypes", "counts"} <= set(batch.given):
            raise InputError('loss="prototypes" needs the prototypes that FedProto gives; use fedgeom.FedProto')
        known = (batch.given["counts"][batch.labels] > 0).float()
        away = batch.features - batch.given["prototypes"][batch.labels]
        return cross_entropy(batch, batch.scores) + self.lam * batch.mean(known * away.square().mean(dim=1))

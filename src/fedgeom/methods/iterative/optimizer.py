"""Optimizers: how a network's steps follow from gradients; unless told, they begin anew in every round."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between, Choice

if TYPE_CHECKING:
    import torch


BETA = Annotated[float, Between(0, 1, open_high=True)]
DECAY = Annotated[float, Between(0, 10)]


class OptimizerSteps(Protocol):
    """What takes a site's steps: any of torch's optimizers."""

    def step(self) -> Any:
        """Move the parameters by what their gradients say now."""


class GradientSteps:
    """The steps of ``torch.optim.SGD``, bit for bit.

    The first optimizer of torch that a process makes imports torch's compiler: a second and 90 MB more than the few
    lines here need.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], rate: float, rule: SGD):
        self.parameters = parameters
        self.rate = rate
        self.rule = rule
        self.momentum: dict[int, torch.Tensor] = {}
        """The momentum of each parameter, by its place; none before the first step."""

    def step(self) -> None:
        """Move the parameters by their gradients."""
        for at, parameter in enumerate(self.parameters):
            change = parameter.grad
            if change is None:
                continue
            if self.rule.weight_decay:
                change = change.add(parameter.data, alpha=self.rule.weight_decay)
            if self.rule.momentum:
                before = self.momentum.get(at)
                now = change.clone() if before is None else before.mul_(self.rule.momentum).add_(change)
                self.momentum[at] = now
                change = change.add(now, alpha=self.rule.momentum) if self.rule.nesterov else now
            parameter.data.add_(change, alpha=-self.rate)


@dataclass(frozen=True)
class Optimizer(Choice):
    """The rule of a site's steps; torch's own, since that is what others compare with."""

    kind: ClassVar[str] = "optimizer"

    @property
    def carries_over(self) -> bool:
        """Whether what the optimizer remembers at the end of a round is where it begins the next."""
        return False

    @property
    def bare(self) -> bool:
        """Whether a step is the gradient times the rate, which every learner can take."""
        return False

    def counted(self, steps: int) -> float:
        """Return how often a constant gradient, times the rate, is in the change that so many steps make."""
        return float(steps)

    @abstractmethod
    def build(self, parameters: list[torch.nn.Parameter], rate: float) -> OptimizerSteps:
        """Return what takes the steps of these parameters, such as torch's optimizer."""


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent."""

    name: ClassVar[str] = "sgd"

    momentum: BETA = 0.0
    """How much of the last step the next one repeats."""
    weight_decay: DECAY = 0.0
    """The strength of a penalty ½·‖w‖² on the parameters."""
    nesterov: bool = False
    """Whether the step looks ahead along the momentum."""
    kept: bool = False
    """Whether a site's momentum goes on from round to round; it stays at the site."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise InputError("nesterov=True looks ahead along the momentum; give momentum=0.9 or so")
        if self.kept and not self.momentum:
            raise InputError("kept=True keeps the momentum from round to round; give momentum=0.9 or so")

    @property
    def carries_over(self) -> bool:
        """Whether the momentum goes on in the next round."""
        return self.kept

    @property
    def bare(self) -> bool:
        """Whether there is neither momentum nor weight decay."""
        return not (self.momentum or self.weight_decay)

    def counted(self, steps: int) -> float:
        """Return (τ − ρ(1 − ρ^τ)/(1 − ρ))/(1 − ρ) for τ steps with momentum ρ (Wang et al. 2020); without it, τ."""
        rho = self.momentum
        return float((steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho))

    def build(self, parameters: list[torch.nn.Parameter], rate: float) -> GradientSteps:
        """Return what takes the steps that torch's SGD takes."""
        return GradientSteps(parameters, rate, self)


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    name: ClassVar[str] = "adamw"

    beta1: BETA = 0.9
    """β₁"""
    beta2: BETA = 0.999
    """β₂"""
    weight_decay: DECAY = 0.01
    """How much of the rate each step shrinks the parameters by."""

    def build(self, parameters: list[torch.nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """Return torch's AdamW."""
        import torch  # optional

        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(parameters, rate, betas=betas, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Schedule(Choice):
    """What the first rate is multiplied by in a round."""

    kind: ClassVar[str] = "schedule"

    @abstractmethod
    def factor(self, round: int, rounds: int) -> float:
        """Return the factor in a round, counted from 0, of so many."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The same rate in every round."""

    name: ClassVar[str] = "constant"

    def factor(self, round: int, rounds: int) -> float:
        """Return 1."""
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """From the first rate to zero along half a cosine."""

    name: ClassVar[str] = "cosine"

    def factor(self, round: int, rounds: int) -> float:
        """Return (1 + cos(π·round/rounds))/2."""
        return 0.5 * (1 + math.cos(math.pi * round / rounds))


@dataclass(frozen=True)
class Decay(Schedule):
    """A factor less in every round."""

    name: ClassVar[str] = "decay"

    decay: Annotated[float, Between(0, 10, open_low=True)] = 0.97
    """The factor per round."""

    def factor(self, round: int, rounds: int) -> float:
        """Return decay^round."""
        return float(self.decay**round)


@dataclass(frozen=True)
class StepDecay(Schedule):
    """A factor less after every so many rounds."""

    name: ClassVar[str] = "step"

    every: Annotated[int, Between(1)] = 10
    """How many rounds the rate stays the same."""
    decay: Annotated[float, Between(0, 10, open_low=True)] = 0.1
    """The factor per step."""

    def factor(self, round: int, rounds: int) -> float:
        """Return decay^⌊round/every⌋."""
        return float(self.decay ** (round // self.every))


@dataclass(frozen=True)
class Warmup(Schedule):
    """From a small rate to the first in a few rounds, then constant or along half a cosine to zero."""

    name: ClassVar[str] = "warmup"

    warmup_rounds: Annotated[int, Between(1)] = 5
    """The rounds until the rate is reached."""
    then: Literal["constant", "cosine"] = "cosine"
    """What comes after."""

    def factor(self, round: int, rounds: int) -> float:
        """Return (round + 1)/(warm + 1) at first."""
        if round < self.warmup_rounds:
            return (round + 1) / (self.warmup_rounds + 1)
        after = Constant() if self.then == "constant" else Cosine()
        return after.factor(round - self.warmup_rounds, max(rounds - self.warmup_rounds, 1))

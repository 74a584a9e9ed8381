"""Optimizers: how a network's steps follow from gradients; unless told, they begin anew in every round."""

from __future__ import annotations

import inspect
import json
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from fedgeom.errors import InputError
from fedgeom.federation.settings import Between, Choice

if TYPE_CHECKING:
    import torch

    NamedValues = tuple[str, ...] | Mapping[str, Any]
else:  # a table is read into lines, which travel
    NamedValues = tuple[str, ...]

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

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, as torch's optimizers do: loops of one's own ask for it."""
        for parameter in self.parameters:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()


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

    @classmethod
    def read(cls, value: Any, setting: str) -> Self:
        """Return an optimizer from an object, a name, a table, or a class of ``torch.optim``."""
        if isinstance(value, type) and value.__module__.startswith("torch.optim"):
            value = value.__name__.lower()
        if isinstance(value, str | Mapping):
            table = {"name": value} if isinstance(value, str) else dict(value)
            name = table.pop("name", None)
            if isinstance(name, str) and name not in cls.registry and name in _offered():
                known = _offered()[name]
                if known.lower() in cls.registry and not table:
                    return super().read(known.lower(), setting)
                made: Any = TorchOptimizer(known, table)
                return made  # type: ignore[no-any-return]
        if hasattr(value, "param_groups"):
            raise InputError(
                f"{setting}: an optimizer of torch at work ({type(value).__name__}) was given; it is made anew at each "
                f'site. Wanted its name, "{type(value).__name__.lower()}", a table with its settings, or an object '
                "whose base class is fedgeom.extend.Optimizer"
            )
        return super().read(value, setting)

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
class Adam(AdamW):
    """Adam (Kingma and Ba 2015), with weight decay as a penalty in the gradient."""

    name: ClassVar[str] = "adam"

    weight_decay: DECAY = 0.0
    """The strength of a penalty ½·‖w‖² on the parameters."""

    def build(self, parameters: list[torch.nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """Return torch's Adam."""
        import torch  # optional

        return torch.optim.Adam(parameters, rate, betas=(self.beta1, self.beta2), weight_decay=self.weight_decay)


@dataclass(frozen=True)
class TorchOptimizer(Optimizer):
    """Any optimizer of ``torch.optim``, by its class's name and its settings."""

    name: ClassVar[str] = "torch"

    of: str = "RMSprop"
    """The name of the class."""
    settings: NamedValues = ()
    """Its settings but the rate, {"alpha": 0.9}; they travel as "alpha=0.9"."""

    def __post_init__(self) -> None:
        if isinstance(self.settings, Mapping):
            lines = tuple(f"{name}={json.dumps(value)}" for name, value in self.settings.items())
            object.__setattr__(self, "settings", lines)
        super().__post_init__()
        import torch  # optional

        kind = getattr(torch.optim, self.of, None)
        if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
            raise InputError(
                f"of={self.of!r} given; wanted the name of a class of torch.optim: {', '.join(_offered())}"
            )
        known = inspect.signature(kind).parameters
        odd = next((name for name in self.own if name not in known or name in ("params", "lr")), None)
        if odd is not None:
            hint = (
                "its rate is learning_rate, of the algorithm"
                if odd == "lr"
                else f"it has {', '.join(list(known)[2:])}"
            )
            raise InputError(f"torch.optim.{self.of} has no setting {odd!r} here; {hint}")

    @property
    def own(self) -> dict[str, Any]:
        """The settings by name."""
        pairs = [line.partition("=") for line in self.settings]
        return {name: _read(text) for name, _, text in pairs}

    def build(self, parameters: list[torch.nn.Parameter], rate: float) -> torch.optim.Optimizer:
        """Return torch's optimizer."""
        import torch  # optional

        found: torch.optim.Optimizer = getattr(torch.optim, self.of)(parameters, lr=rate, **self.own)
        return found


def _read(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return tuple(found) if isinstance(found, list) else found  # such as Adam's betas


def _offered() -> dict[str, str]:
    """Return the optimizers of torch by name, and by the name in small letters which; none without torch."""
    try:
        from torch import optim  # optional
    except ImportError:
        return {}
    kinds = {name: kind for name, kind in vars(optim).items() if isinstance(kind, type)}
    known = [
        name for name, kind in kinds.items() if issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer
    ]
    return {name: name for name in known} | {name.lower(): name for name in known}


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

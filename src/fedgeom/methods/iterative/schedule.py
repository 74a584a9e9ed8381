"""Schedules: how the learning rate changes over the rounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fedgeom.federation.settings import Between, Choice


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
class Step(Schedule):
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

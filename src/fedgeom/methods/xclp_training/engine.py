"""The algorithm that trains: any of the table, with the settings that are its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.settings import Choice
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.algorithms.fedavg import FedAvg
from fedgeom.methods.iterative.conversation import Conversation
from fedgeom.methods.iterative.rule import TrainingRule
from fedgeom.methods.iterative.site import TrainingSite

COMMON = tuple(field.name for field in fields(TrainingRule))
"""The settings that all algorithms share: they are those of the run."""
ELSEWHERE = ("privacy",)
"""Settings of some algorithms that are promises about a whole run, which an engine cannot give."""


@dataclass(frozen=True)
class Engine(Choice):
    """An algorithm by its name, with its own settings: "fedavg", {"name": "fedprox", "mu": 0.1}, FedProx(mu=0.1)."""

    kind: ClassVar[str] = "engine"
    wanted: ClassVar[str] = 'an algorithm: "fedavg", "fedprox", {name="fedprox", mu=0.1}'

    algorithm: str = FedAvg.name
    """Its name."""
    own: tuple[tuple[str, Any], ...] = ()
    """Its own settings, sorted by name."""

    def __post_init__(self) -> None:
        """Keep what was given: it is checked when the algorithm is built."""

    @classmethod
    def read(cls, value: Any, setting: str) -> Self:
        """Return an engine from an algorithm, its class, its name, or a table with its name and settings."""
        if isinstance(value, cls):
            return value
        if isinstance(value, type) and issubclass(value, Algorithm):
            value = value()
        if isinstance(value, Algorithm):
            value = cls._own(value)
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            raise InputError(f"{setting}={value!r} given; wanted {cls.wanted}")
        found = METHODS.find(value["name"], what=setting)
        if not _fits(found):
            raise InputError(
                f"{setting}={value['name']!r} given; wanted an algorithm of the table, which trains as all do and "
                "sends what it trained: fedavg, fedprox, scaffold, …"
            )
        given = {key: one for key, one in value.items() if key != "name"}
        for name in ELSEWHERE:
            if given.pop(name, None) is not None:
                raise InputError(
                    f"{setting}: {name} is a promise about a whole run, which XCLPTraining cannot give"
                )
        shared = sorted(set(given) & set(COMMON))
        if shared:
            raise InputError(
                f"{setting}: {shared[0]} is a setting of the run; give it beside {setting}, not inside"
            )
        return cls(value["name"], tuple(sorted(given.items())))

    @staticmethod
    def _own(rule: Algorithm) -> dict[str, Any]:
        """Return an algorithm as a table; what the run settles must be as nothing was said."""
        plain, usual = rule.terms(), type(rule)().terms()
        moved = [name for name in COMMON if plain[name] != usual[name]]
        if moved:
            raise InputError(
                f"engine: {moved[0]} is a setting of the run; give it to XCLPTraining, not its engine"
            )
        run = {*COMMON, *(field.name for field in fields(Method))}
        return {"name": rule.name} | {name: value for name, value in plain.items() if name not in run}

    def plain(self) -> str | dict[str, Any]:
        """Return the engine as it travels."""
        return {"name": self.algorithm, **dict(self.own)} if self.own else self.algorithm

    def rule(self, settings: TrainingRule) -> Algorithm:
        """Return the algorithm with the settings of the run: those that say something, and its own for the others."""
        found: type[Algorithm] = METHODS.find(self.algorithm, what="engine")
        terms, usual = settings.terms(), TrainingRule().terms()
        said = {name: getattr(settings, name) for name in COMMON if terms[name] != usual[name]}
        return found(**said, **dict(self.own))


def _fits(found: Any) -> bool:
    """Say whether a method is an algorithm without questions of its own that sends what sites trained."""
    algorithm = isinstance(found, type) and issubclass(found, Algorithm)
    return algorithm and found.site is TrainingSite and found.conversation is Conversation and bool(found.sends)

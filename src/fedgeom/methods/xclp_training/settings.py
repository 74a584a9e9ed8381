"""The settings of training with pseudo-labels, and what both halves know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.settings import Between, Choice
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.algorithms.averaging import FedAvg
from fedgeom.methods.iterative.settings import MOST_ROUNDS, Round, TrainingRule
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.iterative.tree import State, Tree
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.methods.xclp_training.pseudo import FromXCLP, PseudoLabels

COMMON = tuple(field.name for field in fields(TrainingRule))
"""The settings that all algorithms share: they are those of the run."""
ELSEWHERE = ("privacy",)
"""Settings of some algorithms that are promises about a whole run: no algorithm inside another method can give them."""


@dataclass(frozen=True)
class InnerAlgorithm(Choice):
    """An algorithm by its name, with its own settings: "fedavg", {"name": "fedprox", "mu": 0.1}, FedProx(mu=0.1)."""

    kind: ClassVar[str] = "algorithm"
    wanted: ClassVar[str] = 'an algorithm: "fedavg", "fedprox", {name="fedprox", mu=0.1}'

    algorithm: str = FedAvg.name
    """Its name."""
    own: tuple[tuple[str, Any], ...] = ()
    """Its own settings, sorted by name."""

    def __post_init__(self) -> None:
        """Keep what was given: it is checked when the algorithm is built."""

    @classmethod
    def read(cls, value: Any, setting: str) -> Self:
        """Return the choice from an algorithm, its class, its name, or a table with its name and settings."""
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
        plain = rule.terms()
        usual = type(rule)().terms()
        moved = [name for name in COMMON if plain[name] != usual[name]]
        if moved:
            raise InputError(
                f"algorithm: {moved[0]} is a setting of the run; give it to XCLPTraining, not to its algorithm"
            )
        run = {*COMMON, *(field.name for field in fields(Method))}
        return {"name": rule.name} | {name: value for name, value in plain.items() if name not in run}

    def plain(self) -> str | dict[str, Any]:
        """Return the algorithm as it travels."""
        return {"name": self.algorithm, **dict(self.own)} if self.own else self.algorithm

    def rule(self, settings: TrainingRule) -> Algorithm:
        """Return the algorithm with the settings of the run: those that say something, and its own for the others."""
        found: type[Algorithm] = METHODS.find(self.algorithm, what="algorithm")
        terms = settings.terms()
        usual = TrainingRule().terms()
        said = {name: getattr(settings, name) for name in COMMON if terms[name] != usual[name]}
        return found(**said, **dict(self.own))


def _fits(found: Any) -> bool:
    """Say whether a method is an algorithm without questions of its own that sends what sites trained."""
    algorithm = isinstance(found, type) and issubclass(found, Algorithm)
    return algorithm and found.site is TrainingSite and found.conversation is TrainingLoop and bool(found.sends)


if TYPE_CHECKING:
    AlgorithmOrName = str | InnerAlgorithm | Algorithm | type[Algorithm] | dict[str, Any]
    LabelsOrName = str | PseudoLabels | dict[str, Any]
else:  # choices are read from names and tables
    AlgorithmOrName = InnerAlgorithm
    LabelsOrName = PseudoLabels

BRANCHES = ("sends", "gives", "sends_changes", "predicts_jointly", "needs_steps", "sums_rows_up")


@dataclass(frozen=True, kw_only=True)
class XclpTrainingSettings(TrainingRule):
    """An algorithm, where pseudo-labels come from, and when."""

    takes_groups: ClassVar[bool] = False

    may_rest: ClassVar[bool] = True

    algorithm: AlgorithmOrName = "fedavg"
    """The algorithm that trains: any of the table by its name, or a table of its name and own settings."""
    labels: LabelsOrName = "xclp"
    """Where pseudo-labels come from: "xclp" (FromXCLP(…)), "site" (each site's own graph), "network" (the joint model's
    predictions), "none" (labelled rows only)."""
    relabel_every: Annotated[int, Between(1, MOST_ROUNDS)] = 1
    """Labels spread anew in every so many rounds; in between sites keep those they have."""
    warmup_rounds: Annotated[int, Between(0, MOST_ROUNDS)] | None = None
    """The first rounds train on labelled rows only, as features of an untrained network say little. None: a third of
    the rounds."""
    half_labelled: bool = True
    """Whether one half of each batch has labels of its own and the other half pseudo-labels, as published."""
    labelled_sites: tuple[str, ...] = ()
    """The sites that are known to have labels. Where a share of the sites is drawn, as large a share of these is."""
    weights: Literal["rows", "sites"] = "sites"
    """Whether all sites count the same, as published, or by their rows with a label or a pseudo-label."""

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen: Any = self.algorithm
        rule = chosen.rule(self)
        object.__setattr__(self, "_rule", rule)
        for name in COMMON:  # what the algorithm settles for itself, such as its head and loss
            object.__setattr__(self, name, getattr(rule, name))
        for name in BRANCHES:
            object.__setattr__(self, name, getattr(rule, name))
        if self.first_spread >= self.n_rounds:
            raise InputError(
                f"warmup_rounds={self.warmup_rounds} of n_rounds={self.n_rounds} given; wanted fewer, or labels never "
                "spread"
            )

    @property
    def rule(self) -> Algorithm:
        """The algorithm that trains, with all settings."""
        found: Algorithm = self._rule  # type: ignore[attr-defined]
        return found

    @property
    def source(self) -> PseudoLabels:
        """Where pseudo-labels come from."""
        assert isinstance(self.labels, PseudoLabels)
        return self.labels

    @property
    def xclp(self) -> XclpSettings | None:
        """How labels spread over all sites of a round; None where they do not."""
        return self.labels.settings(self.classes, self.min_sites) if isinstance(self.labels, FromXCLP) else None

    @property
    def first_spread(self) -> int:
        """The first round, from 0, that trains on pseudo-labels."""
        return self.n_rounds // 3 if self.warmup_rounds is None else self.warmup_rounds

    def labels_in(self, round: int) -> bool:
        """Whether sites get pseudo-labels before they train in this round."""
        return self.first_spread <= round < self.n_rounds and (round - self.first_spread) % self.relabel_every == 0

    def spreads_in(self, round: int) -> bool:
        """Whether labels spread over all sites of this round."""
        return self.source.jointly and self.labels_in(round)

    def drawn(self, members: Sequence[str], seed: int, round: int) -> tuple[str, ...]:
        """Return the sites that train in a round, as many of those with labels as their share of all (Appendix A.2)."""
        everyone = tuple(sorted(members))
        known = [name for name in everyone if name in self.labelled_sites]
        others = [name for name in everyone if name not in self.labelled_sites]
        wanted = self.count_drawn(len(everyone))
        if not known or not others or wanted >= len(everyone):
            return super().drawn(members, seed, round)
        rng = np.random.default_rng([seed % 2**63, round, 1])
        first = min(max(1, math.floor(wanted * len(known) / len(everyone) + 0.5)), len(known), wanted)
        second = min(wanted - first, len(others))
        chosen = [
            rng.choice(part, count, replace=False) for part, count in ((known, wanted - second), (others, second))
        ]
        return tuple(sorted(np.concatenate(chosen).tolist()))

    def shows_one_site(self) -> str:
        """Open training shows updates; over pairs the coordinator sees angles between rows."""
        shown = [super().shows_one_site()]
        if self.xclp is not None and self.xclp.graph == "pairs":
            shown.append(
                "in many rounds the angles between the features of all rows, and each site's number of rows"
            )
        return " and ".join(one for one in shown if one)

    def sums_of_few(self) -> Mapping[str, str]:
        """Return what the propagation shows of few rows."""
        return {} if self.xclp is None else self.xclp.sums_of_few()

    # What a site does, and the coordinator: as the algorithm says.

    def trains(self, task: Task) -> bool:
        """Whether a site has rows to train on in a round, as many as its policy asks for a step."""
        return task.rows >= max(task.effort.least, 1)

    def weight(self, task: Task) -> float:
        """Return what a site counts: nothing where it has nothing to train on."""
        return super().weight(task) if self.trains(task) else 0.0

    def local(self, task: Task, given: State, own: State) -> State:
        """Train; without rows to train on, send what counts for nothing and changes nothing."""
        if self.trains(task):
            return self.rule.local(task, given, own)
        blank = Tree(self.sent_like(self.shared(task.first)))
        start = given["model"]
        return blank | {"model": 0.0 * start if self.sends_changes else start}

    def start(self, model: Tree) -> State:
        """Return the coordinator's state before the first round."""
        return self.rule.start(model)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Turn the mean of what the sites sent into the coordinator's next state."""
        return self.rule.combine(state, mean, round)

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the site's own model, given the last joint one."""
        return self.rule.personalise(task, given, own)

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the model that a site has after its training in a round."""
        return self.rule.own_model(task, given, sent, own)

    def shared(self, model: Tree) -> Tree:
        """Return the part of a whole model that is sent."""
        return self.rule.shared(model)

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Return a whole model from its shared part and the site's own."""
        return self.rule.whole(task, model, own)

    def sent_like(self, model: Tree) -> State:
        """Return a tree shaped like what a site sends."""
        return self.rule.sent_like(model)

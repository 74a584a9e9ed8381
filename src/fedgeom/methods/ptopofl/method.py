"""pTopoFL: sites with data of similar shape share a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, fault, label_names
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.geometry.topology import clustering as topology
from fedgeom.geometry.topology.descriptors import NAMES
from fedgeom.methods.iterative import setup
from fedgeom.methods.iterative.algorithm import Algorithm, Specimen
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.settings import Round
from fedgeom.methods.iterative.site import generator
from fedgeom.methods.iterative.training import Group, Outcome, TrainingLoop
from fedgeom.methods.iterative.tree import State, Tree, to_wire
from fedgeom.methods.ptopofl.model import TopoModel
from fedgeom.methods.ptopofl.settings import TopoSettings
from fedgeom.methods.ptopofl.shapes import (
    CONSENSUS,
    DescribeActivations,
    DescribePrivately,
    DescribeShape,
    ShapeDescription,
    cluster_by_distance,
    describe_rows,
    judge_shapes,
)
from fedgeom.methods.ptopofl.site import TopoSite
from fedgeom.protocols.secure_sum.rules import MIXED


class TopoTrainingLoop(TrainingLoop):
    """One run of `PTopoFL`."""

    rule: TopoSettings

    def __init__(self, rule: TopoSettings, sites: Coordinator):
        super().__init__(rule, sites)
        self.cluster: dict[str, int] = {}
        self.closeness: dict[str, float] = {}
        self.trust: dict[str, float] = {}
        self.history: dict[str, list[Floats]] = {}
        """φ_k of each round in which it was asked for."""
        self.quickened: set[str] = set()
        """Sites that drifted: their learning rate is raised."""
        self.moved = False
        """Whether the sites' first steps were looked at."""

    def agree(self) -> None:
        """Join as in any training, then learn the shapes and form the clusters (Step 1)."""
        super().agree()
        self.cluster = dict.fromkeys(self.members, 0)
        if self.rule.describes and self.rule.describes_in(0):
            self.learn_shapes(0)

    def _question(
        self, round: int, state: State | None
    ) -> DescribeShape | DescribePrivately | DescribeActivations:
        """Return what asks for the shapes: of rows, or of activations, for which later models must be given."""
        if self.rule.epsilon is not None:
            return DescribePrivately(round=round)
        if self.rule.descriptor_input == "rows" or state is None:
            return DescribeShape(round=round)
        given = to_wire(state.select(self.rule.gives))  # the consensus: all sites' shapes are of the same model
        return DescribeActivations(round=round, given=given, agreed=self.agreed.hash)

    def learn_shapes(self, round: int, state: State | None = None) -> None:
        """Ask for descriptors; cluster, weigh and judge the sites by them."""
        rule = self.rule
        question = self._question(round, state)
        given = self.sites.ask(question, of=self.members, expect=ShapeDescription)
        for name in [name for name, said in given.items() if not self._usable(said)]:
            del given.came[name]
            given.missing[name] = "sent numbers on its shape that are not those asked for, or not finite"
            self.sites.leave_out(name, given.missing[name])
        given.need(self.cohort.min_sites, "with the shape of their rows")
        names = tuple(given)
        if not round:
            self.members = names
        if rule.track_every:
            for name in names:
                self.history.setdefault(name, []).append(given[name].descriptor.numpy().astype(np.float64))
            if round > rule.first_descriptor_round and not self._drifted(names):
                return
        before = np.array([self.cluster[name] for name in names])
        judged = judge_shapes(rule, list(given.values()), before)
        if judged.clusters is not None:
            self._take_clusters(names, judged.clusters)
        if judged.closeness is not None:
            self.closeness = dict(zip(names, judged.closeness.tolist(), strict=True))
        if judged.z is not None:
            self._judge(names, judged.z)

    def _usable(self, said: ShapeDescription) -> bool:
        """Say whether a description has the numbers that were asked for: one site must not stop everybody."""
        rule = self.rule
        classes = len(self.agreed.classes)
        whole = len(NAMES) if rule.by_rows else 0
        each = len(NAMES) * classes if rule.by_class else 0
        pairs = said.h0, said.h1
        right = (said.descriptor.shape, said.by_class.shape) == ((whole,), (each,))
        right = right and all(len(array.shape) == 2 and array.shape[1] == 2 for array in pairs)
        every = [array.numpy() for array in (said.descriptor, said.by_class, *pairs)]
        finite = all(array.dtype == np.float64 and np.isfinite(array).all() for array in every)
        return right and finite and bool(np.isfinite(said.merges))

    def _take_clusters(self, names: Sequence[str], labels: Ints) -> None:
        self.cluster = dict.fromkeys(self.members, 0) | dict(zip(names, labels.tolist(), strict=True))
        self.sites.metrics["clusters"] = {name: self.cluster[name] for name in sorted(self.cluster)}

    def _judge(self, names: Sequence[str], z: Floats) -> None:
        self.trust = dict(zip(names, topology.trust(z).tolist(), strict=True))
        self.sites.metrics["trust"] = {name: round(value, 4) for name, value in self.trust.items()}
        # The threshold τ tells whom to name; the weight exp(−max(z − 1, 0)) does not depend on it.
        self.sites.metrics["flagged"] = [n for n, score in zip(names, z, strict=True) if score > self.rule.tau]

    def _drifted(self, names: Sequence[str]) -> bool:
        """Follow the signatures (Eq. 9); return whether some site drifted so far that all are clustered anew."""
        first = {name: np.linalg.norm(self.history[name][0]) or 1.0 for name in names}
        drift = {name: topology.drift(np.vstack(self.history[name])) / first[name] for name in names}
        self.sites.metrics["drift"] = {name: round(float(value), 4) for name, value in drift.items()}
        moved = {name for name, value in drift.items() if value > self.rule.drift_limit}
        new = moved - self.quickened
        self.quickened = self.quickened | moved
        return bool(new)

    def faster(self, members: Sequence[str]) -> tuple[str, ...]:
        """Return the sites that drifted: they learn faster (Section 3.5)."""
        return tuple(sorted(self.quickened.intersection(members)))

    def round(self, number: int, state: State) -> tuple[State, float]:
        """Hold one round, after a look at the shapes where they are tracked."""
        if number and self.rule.describes and self.rule.describes_in(number):
            self.learn_shapes(number, state)
        return super().round(number, state)

    def groups(self, number: int, state: State, chosen: tuple[str, ...]) -> list[Group]:
        """Let each cluster train its own model."""
        found = []
        for label in sorted(set(self.cluster.values())):
            members = tuple(name for name in chosen if self.cluster[name] == label)
            if members:
                factors = {n: self.closeness.get(n, 1.0) * self.trust.get(n, 1.0) for n in members}
                given = Tree(model=state.get(f"cluster {label}", state["model"]))
                if number == self.rule.n_rounds and getattr(self.rule, "holdout", None) is not None:
                    given |= {CONSENSUS: state["model"]}  # what the joint model is worth is counted at the sites
                whole = tuple(sorted(n for n, cluster in self.cluster.items() if cluster == label))
                found.append(Group(members, given, factors, whole if self.rule.groups > 1 else ()))
        return found

    def combine(self, state: State, outcomes: Sequence[Outcome], round: Round) -> State:
        """Blend the clusters' models with their consensus (Step 3, Eq. 7)."""
        rule = self.rule
        models = dict[int, Tree]()
        for outcome in outcomes:
            models[self.cluster[outcome.sites[0]]] = outcome.mean["model"]
        if rule.cluster_by == "updates" and not self.moved:
            models = self._cluster_updates(state, outcomes[0])
        for label in set(self.cluster.values()) - set(models):  # nobody of this cluster answered
            models[label] = state.get(f"cluster {label}", state["model"])
        sizes = np.array([list(self.cluster.values()).count(label) for label in models], float)
        flat = (sizes / sizes.sum()) @ np.array([model.flat() for model in models.values()])
        consensus = state["model"].like(flat)
        blended = {
            f"cluster {label}": (1 - rule.beta) * model + rule.beta * consensus for label, model in models.items()
        }
        return Tree(model=consensus, **blended)

    def _cluster_updates(self, state: State, outcome: Outcome) -> dict[int, Tree]:
        """Cluster by the directions in which the sites moved in the first round, which all began alike."""
        names = tuple(outcome.updates)
        moves = np.array([(outcome.updates[name]["model"] - state["model"]).flat() for name in names])
        self.moved = True
        self._take_clusters(names, cluster_by_distance(self.rule, topology.cosine_distances(moves)))
        models = {}
        for label in set(self.cluster.values()):
            inside = [n for n in names if self.cluster[n] == label]
            if inside:
                mean = np.mean([outcome.updates[n]["model"].flat() for n in inside], axis=0)
                models[label] = state["model"].like(mean)
        return models

    def model(self, state: State) -> TrainedModel:
        """Return the consensus; sites that add columns need their own shape to use it."""
        return replace(super().model(state), augmented=bool(self.rule.extra_columns))  # type: ignore[call-arg]

    def judged(self, groups: Sequence[Group], updates: dict[str, State]) -> dict[str, float]:
        """Judge sites by how their step turns away from the others' median step: the site cannot fake that."""
        if self.rule.trust != "updates" or len(updates) < 3:
            return {}
        starts = {name: group.given["model"] for group in groups for name in group.members}
        names = tuple(updates)
        moves = np.array([(updates[name]["model"] - starts[name]).flat() for name in names])
        middle = np.median(moves, axis=0)
        lengths = np.linalg.norm(moves, axis=1) * (np.linalg.norm(middle) or 1.0)
        turned = 1 - (moves @ middle) / np.maximum(lengths, 1e-300)
        self._judge(names, topology.z_scores(turned))
        return self.trust


@dataclass(frozen=True, kw_only=True)
class PTopoFL(TopoSettings, Algorithm):
    """For sites of several kinds: those whose data have a similar shape train a model together.

    Sites are clustered, clusters average their models, and clusters lean on each other (Algorithm 1).
    Every part can be switched off or replaced. `published` is the paper's own setting.
    """

    name: ClassVar[str] = "ptopofl"
    site: ClassVar[type[Site[Any]]] = TopoSite
    conversation: ClassVar[type[TrainingLoop]] = TopoTrainingLoop
    model_type: ClassVar[type[Model]] = TopoModel

    @classmethod
    def published(cls, **changes: Any) -> PTopoFL:
        """Return the paper's setting for Scenarios A and B (Table 3; sites refit to the optimum in every round)."""
        paper: dict[str, Any] = {
            "n_clusters": 2,
            "solver": "exact",
            "augment": True,
            "unit_box": True,
            "size_free": False,
            "secure": False,
        }
        return cls(**(paper | changes))

    def specimen(self, shape: Shape, classes: int) -> Specimen:
        """Return what travels in a round; where rows are held out, sites get the consensus too in the end."""
        found = super().specimen(shape, classes)
        if self.holdout is None:
            return found
        consensus = {path.replace("model", CONSENSUS, 1): leaf for path, leaf in found.sent.items()}
        return replace(found, finish=found.given | consensus)

    def plan_rounds(self, shape: Shape, state: Specimen) -> Plan:
        """Yield how sites describe the shape of their rows, and how each cluster is summed."""
        rounds = [at for at in range(self.n_rounds) if self.describes and self.describes_in(at)]
        if rounds:
            yield from self._plan_descriptions(shape, state, len(rounds))
        yield from super().plan_rounds(shape, state)

    def _plan_descriptions(self, shape: Shape, state: Specimen, times: int) -> Plan:
        numbers = len(NAMES)
        rows = self.by_rows or self.epsilon is not None
        pairs = np.zeros((max(shape.rows, 1), 2))
        said = ShapeDescription(
            descriptor=Array.of(np.zeros(numbers if rows else 0)),
            by_class=Array.of(np.zeros(numbers * shape.n_classes if self.by_class else 0)),
            h0=Array.of(pairs),
            h1=Array.of(pairs),
            merges=0.5,
        )
        decides = "how many pairs the persistence diagrams have, and how often they are asked for"
        if self.epsilon is not None:
            yield Ask(lambda number: DescribePrivately(round=number), said, times=times, bound=decides)
            return
        later = self.descriptor_input != "rows"
        yield Ask(lambda number: DescribeShape(round=number), said, times=1 if later else times, bound=decides)
        if later:
            yield Ask(
                lambda number: DescribeActivations(round=number, given=state.given, agreed=bytes(32)),
                said,
                times=max(times, 2) - 1,
                bound=decides,
            )

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse weights that single sites out, with what to do; what the default settings lead to is computed here."""

        found = super().check(sites, policy, seed)
        least = policy.min_cohort
        for names, mixed in mixtures(self, sites, seed):
            if mixed < MIXED * least:
                some = f"{', '.join(names[:6])}{f' and {len(names) - 6} more' if len(names) > 6 else ''}"
                what = (
                    f"the weights of closeness and trust make the sum over {some} one of {mixed:.1f} sites; the policy "
                    f"asks for {least} (min_cohort)"
                )
                found.append(fault(what, 'weigh the sites alike: closeness=False, trust="none"', topic="weights"))
        return found


def mixtures(
    method: TopoSettings, sites: Sequence[SiteData], seed: int = 0
) -> list[tuple[tuple[str, ...], float]]:
    """Return the clusters of a run's first round, and how many sites each one's weighted sum mixes: (Σf)²/Σf².

    Empty where sums are open or sites are weighed alike, and where descriptors have noise, which nobody can foresee, or
    are of activations or of a later round.
    """
    if method.descriptor_input != "rows" or method.first_descriptor_round:
        return []
    if not (method.masked and method.weighs_sites and method.describes) or method.epsilon is not None:
        return []
    ordered = sorted(sites, key=lambda site: site.name)
    classes = method.classes or tuple(sorted(label_names(ordered)))
    given = []
    for site, (centre, spread) in zip(ordered, setup.scales(method, ordered), strict=True):
        rows = setup.scaled(site.X, centre, spread, np.float64)
        draw = partial(generator, seed, 0, site.name, purpose=2)
        given.append(describe_rows(method, rows, site.y, classes, draw))
    judged = judge_shapes(method, given, np.zeros(len(ordered), np.int64))
    cluster = np.zeros(len(ordered), np.int64) if judged.clusters is None else judged.clusters
    factors = np.ones(len(ordered)) if judged.closeness is None else judged.closeness
    factors = factors if judged.z is None else factors * topology.trust(judged.z)
    found = []
    for label in np.unique(cluster):
        f = factors[cluster == label]
        names = tuple(site.name for site, mark in zip(ordered, cluster == label, strict=True) if mark)
        found.append((names, float(f.sum() ** 2 / max(float((f**2).sum()), 1e-300))))
    return found

"""Adding rows to a ridge, or taking them out: one secure sum of the change, and the model of all rows as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, check_known_labels, check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.disclosure import FloorLayout, count_looks
from fedgeom.federation.messages import LARGEST_MESSAGE, Array, Key, Names, Question
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.site import Memory, Part, Site, answers
from fedgeom.methods.ridge.core import Solution, packed_gram, solve, starts, turn_of, turned
from fedgeom.methods.ridge.features import check_widths
from fedgeom.methods.ridge.messages import MOST_PARTS, SolutionTaken, TakeSolution
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.site import SolutionMemory
from fedgeom.methods.ridge.statistics import (
    FeatureProblem,
    FeatureState,
    Statistics,
    change_bits,
    check_part,
    features_of,
    gram_parts,
    hash_part,
    rows_of,
    stands_for,
)
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.fixed_point import from_fixed, to_fixed
from fedgeom.protocols.model_delivery import UNUSABLE
from fedgeom.protocols.names import AgreeOnNames, LabelNames, NamesMemory, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite


class TakeBase(Question, kind="ridge-update.base", answer=SolutionTaken):
    """Give a site what the features were made from, and hashes of the sums; the terms say what stands for them."""

    made: Annotated[bytes, msgspec.Meta(max_length=2**26)]
    hashes: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_PARTS)]


class SumChange(SumQuestion, kind="ridge-update.counts", checked=True, decides_floors=True):
    """Ask how many rows of each class are added and how many are taken out, masked; and what sets columns apart."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows of each class are added and taken out; where policies "
        "have floors, also how many changed rows, up to the floor, and how many sites differ from the usual value of "
        "each column, and tell two columns apart"
    )
    classes: Names


class SumChangedGram(SumQuestion, kind="ridge-update.gram", checked=True):
    """Ask for a part of the masked products of features: those of rows added, less those of rows taken out."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: by how much the sums of products of features change. It is the sum "
        "over the changed rows alone, which only the other sites' changes hide"
    )
    counts: SumResult
    """How many rows change."""
    part: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]


class CheckUpdate(Question, kind="ridge-update.check", answer=SolutionTaken):
    """Show the sites a part of the sum from before and of the change; after the last they have the new model."""

    number: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]
    before: Array
    """(numbers,), f8"""
    result: SumResult


def change_layout(columns: int, floors: tuple[int, int]) -> FloorLayout | None:
    """Return how what sets columns of changed rows apart is counted: over all of them; None where nothing is."""
    return None if floors == (1, 1) else FloorLayout(columns, classes=1)


def set_apart(total: Ints, layout: FloorLayout, floors: tuple[int, int]) -> str:
    """Say which column too few of the changed rows or sites set apart, or tell from another; nothing if none.

    An update cannot leave columns out, as a run does: the model has them. A column that is the same number in all
    changed rows tells nothing.
    """
    least_sites, least_rows = floors
    found = layout.split(total)
    pairs = found.pairs
    rows, sites, constant, hashes, squares = found.by_class[0]
    same = (rows == 0) & (constant * squares == hashes**2)
    few = np.flatnonzero(~same & ((rows < least_rows) | (sites < least_sites)))
    if len(few):
        return f"in column {few[0] + 1} too few changed rows or sites have another value than the usual one"
    one, other = np.triu_indices(layout.looks if layout.pairs else 0, 1)
    alike = ~same[one] & ~same[other] & ((pairs[0] < least_rows) | (pairs[1] < least_sites))
    if alike.any():
        at = int(alike.argmax())
        return f"too few changed rows or sites tell column {one[at] + 1} from column {other[at] + 1}"
    rows, sites, may_be = found.totals
    sums = layout.totals[(may_be > 0) & ((rows < least_rows) | (sites < least_sites))]
    if len(sums):
        return f"column {sums[0] + 1} is a sum of others but in too few changed rows or sites"
    return ""


def gather_more(why: str, floors: tuple[int, int]) -> str:
    """Say that changes have to wait for more of them."""
    least_sites, least_rows = floors
    return (
        f"{why}; policies ask for {least_rows} rows (min_rows) of {least_sites} sites (min_sites), since the sums of "
        "the change would show these few: gather more changes first, or run anew over all rows"
    )


CHANGE = "change"
"""What a table's extra array is called that says of each row whether it is added, 1, or taken out, -1."""


@dataclass(frozen=True, kw_only=True)
class UpdateSettings(RidgeSettings):
    """Those of the ridge that is updated, and what stands for its sums."""

    since: str = ""
    """What stands for the features and sums that are updated, 64 hexadecimal digits: ``run.local[site]["statistics"]``
    at every site that took part."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.since) != 64 or set(self.since) - set("0123456789abcdef"):
            raise InputError(
                f"since={self.since!r} given; wanted the 64 hexadecimal digits that stand for the sums of a run with "
                "Ridge(updatable=True); in Python, run.update(…) knows them"
            )
        if not self.classes:
            raise InputError("an update needs `classes`, those of the ridge that is updated")
        if self.personal:
            raise InputError("personal=True given; an update makes the joint model only")


def signs_of(site: SiteData) -> npt.NDArray[np.float64]:
    """Return 1 for each row that is added and -1 for each that is taken out, (rows,), f8."""
    found = site.extra.get(CHANGE)
    if found is None or not np.isin(found, (-1, 1)).all():
        raise InputError(
            f"site {site.name!r}: wanted extra={{'{CHANGE}': …}} with 1 for each row that is added and -1 for each "
            "that is taken out"
        )
    return np.asarray(found, np.float64)


class UpdateMemory(SecureMemory, kw_only=True):
    """What a site remembers of an update beside its keys."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    made: bytes = b""
    hashes: tuple[bytes, ...] = ()
    changed: float = 0.0
    """How many rows of all sites change."""
    solution: SolutionMemory = msgspec.field(default_factory=SolutionMemory)
    after: tuple[bytes, ...] = ()
    """Hashes of the parts as they are after the change."""


class UpdateSite(SummingSite[UpdateMemory]):
    """Answers the questions of `RidgeUpdate`."""

    memory_type: ClassVar[type[Memory]] = UpdateMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)
    takes_models: ClassVar[bool] = False
    names: LabelNames

    def check(self, settings: UpdateSettings) -> None:
        """Refuse data that the update cannot use, naming the site."""
        names = check_table(self.data, min_rows=0, min_rows_per_class=self.policy.min_rows_per_class)
        check_known_labels(self.name, names, settings.classes)
        signs_of(self.data)
        try:
            features = check_widths(settings.maps, self.data.shape[1], settings.shape, settings.max_features)
            limit = (
                min(self.policy.max_message_bytes, LARGEST_MESSAGE) // 2
            )  # a part from before travels beside one
            check_part(settings, features, len(settings.classes or names), limit)
        except InputError as error:
            raise InputError(f"site {self.name!r}: {error}") from error

    @cached_property
    def codes(self) -> Ints:
        """The class of each changed row, (rows,)."""
        place = {name: at for at, name in enumerate(self.settings.classes)}
        return np.array([place[name] for name in self.table.y.astype(str).tolist()], np.int64)

    @property
    def made(self) -> FeatureState:
        """What the features are made from."""
        if not self.memory.made:
            raise ProtocolError("the features did not come yet")
        return msgspec.msgpack.decode(self.memory.made, type=FeatureState)

    def _plan(self, made: FeatureState) -> FeatureProblem:
        return FeatureProblem(self.settings, made.seed, (1, 1), self.data.shape[1], len(self.settings.classes))

    @answers(TakeBase)
    def take_base(self, ask: TakeBase) -> SolutionTaken:
        """Take the features and hashes of the sums from before, if they are what the terms stand for."""
        if stands_for(ask.made, ask.hashes) != self.settings.since:
            raise ProtocolError("the features and sums that came are not those that the terms stand for")
        try:
            made = msgspec.msgpack.decode(ask.made, type=FeatureState)
            plan = self._plan(made)
            made.fit.finished(plan)
            made.preparation()
            fits = len(ask.hashes) == len(gram_parts(self.settings, plan.width, plan.classes))
        except UNUSABLE as error:
            raise ProtocolError("the features that came cannot be used") from error
        if not fits:
            raise ProtocolError("the sums from before have another number of parts")
        self.memory.made = ask.made
        self.memory.hashes = ask.hashes
        return SolutionTaken()

    @answers(SumChange)
    def sum_change(self, ask: SumChange) -> Contribution:
        """Count rows that are added, and rows that are taken out, by class."""
        self.names.check_agreed(ask.classes)
        signs = signs_of(self.table)
        classes = len(self.settings.classes)
        counts = [np.bincount(self.codes[signs == one], minlength=classes) for one in (1, -1)]
        layout = change_layout(self.data.shape[1], self.joining.class_floors)
        if layout is not None:
            least = self.joining.class_floors[1]
            everybody = np.full(len(self.table), "")
            key = self.joining.shared_secret(b"floors")
            counts.append(count_looks([rows_of(self.table)], everybody, ("",), layout, least, key))
        return self.contribute(ask, np.concatenate(counts).astype(np.int64))

    def _changed(self, counts: SumResult) -> float:
        """Return how many rows change in all, by a sum that this site has checked, and remember it."""
        self.sums.check_result(counts, SumChange)
        found = counts.counts()
        first = 2 * len(self.settings.classes)
        floors = self.joining.class_floors
        layout = change_layout(self.data.shape[1], floors)
        if found.shape != (first + (layout.length if layout else 0),):
            raise ProtocolError("the numbers of changed rows do not fit the classes and columns")
        why = set_apart(found[first:], layout, floors) if layout else ""
        if why:
            raise ProtocolError(gather_more(why, floors))
        self.memory.changed = float(found[:first].sum())
        return self.memory.changed

    @answers(SumChangedGram)
    def sum_gram(self, ask: SumChangedGram) -> Contribution:
        """Add up a part of the change of the products."""
        made = self.made
        changed = self._changed(ask.counts)
        plan = self._plan(made)
        parts = gram_parts(self.settings, plan.width, plan.classes)
        at = starts(plan.width, plan.classes)
        start = self.joining.memory.sums.index(SumChangedGram.kind)
        if ask.part >= len(parts) or ask.ticket.round != start + ask.part:
            raise ProtocolError(f"part {ask.part} of the sum is not what round {ask.ticket.round} is for")
        least = self.policy.min_rows_per_feature
        if changed < least * plan.width:
            raise ProtocolError(
                f"{changed:,.0f} rows of all sites change, and there are {plan.width:,} features; the policy of "
                f"{self.name!r} has min_rows_per_feature = {least:g}: gather more changes first"
            )
        first, last = parts[ask.part]
        self.check_size(int(at[last] - at[first]))
        sites = len(self.joining.memory.order)
        words = to_fixed(
            self._gram(plan, made)[at[first] : at[last]], fraction_bits=self._bits(changed), sites=sites
        )
        return self.contribute(ask, words)

    def _bits(self, changed: float) -> int:
        return change_bits(self.settings, changed, len(self.joining.memory.order))

    def _gram(self, plan: FeatureProblem, made: FeatureState) -> Floats:
        """Return the products of rows that are added, less those of rows taken out."""
        signs = signs_of(self.table)
        ground = made.fit.finished(plan)
        total = np.zeros(int(starts(plan.width, plan.classes)[-1]))
        for sign in (1, -1):
            rows = np.flatnonzero(signs == sign)
            features = features_of(rows_of(self.table)[rows], plan, ground)
            total += sign * packed_gram(features, self.codes[rows], plan.classes, plan.width)
        return total

    @answers(TakeSolution)
    def take_solution(self, ask: TakeSolution) -> SolutionTaken:
        """Keep a solution until the sums have shown whether it is one."""
        plan = self._plan(self.made)
        memory = self.memory.solution
        if memory.weights is None:  # asked the same again, it is kept as it is
            shape = (plan.width + 1, plan.classes)
            memory.take(ask.weights.numpy(), ask.alpha, ask.freedom, self.settings.alpha, shape)
        return SolutionTaken()

    @answers(CheckUpdate)
    def check_update(self, ask: CheckUpdate) -> SolutionTaken:
        """Look at one part of the sums; at the last, decide and keep the model."""
        memory = self.memory.solution
        made = self.made
        plan = self._plan(made)
        parts = gram_parts(self.settings, plan.width, plan.classes)
        start = self.joining.memory.sums.index(SumChangedGram.kind)
        if not memory.comes_next(ask.number, ask.result.round, start, len(parts)):
            return SolutionTaken()
        self.sums.check_result(ask.result, SumChangedGram)
        before = ask.before.numpy()
        # The hash is one of bytes, which say no shape.
        if before.dtype != np.float64 or before.ndim != 1 or hash_part(before) != self.memory.hashes[ask.number]:
            raise ProtocolError("a part of the sums from before is not the one that the terms stand for")
        total = before + from_fixed(ask.result.total.numpy(), fraction_bits=self._bits(self.memory.changed))
        memory.look_at(total, parts[ask.number])
        self.memory.after = (*self.memory.after, hash_part(total))
        if memory.checked == len(parts):
            memory.conclude(self.settings.rule)
            classes = self.settings.classes
            maps = self.settings.maps
            ground = made.fit.finished(plan)
            model = RidgeModel.made(classes, maps, ground, memory.final(), memory.alpha, made.temperature)
            self.handed.keep(model.to_bytes())
        return SolutionTaken()

    def preparation(self) -> Preparation | None:
        """Return what took raw rows to those of the features, in the run that the terms stand for."""
        return self.made.preparation() if self.memory.made else None

    def result(self) -> dict[str, Any]:
        """Return what stands for the sums as they are now."""
        if not self.memory.solution.good:
            return {}
        return {"statistics": stands_for(self.memory.made, self.memory.after), **self.names.left_out()}


_KEPT: WeakValueDictionary[str, Statistics] = WeakValueDictionary()
"""Sums by what stands for them in the terms; they are large, and no part of the terms."""


@dataclass(frozen=True, kw_only=True)
class RidgeUpdate(UpdateSettings, Method):
    """Sites add up what changed since a run of Ridge; its sums and the change give the ridge of all rows now.

    `Run.update` makes it. Features, classes and the temperature of probabilities stay those of the first run, and so
    does what prepares raw rows: changed rows come prepared by it.
    """

    site: ClassVar[type[Site[Any]]] = UpdateSite
    model_type: ClassVar[type[Model]] = RidgeModel
    private_units: ClassVar[tuple[str, ...]] = ()

    def on(self, before: Statistics) -> RidgeUpdate:
        """Hand the coordinator the sums from before, which are no part of the terms; return the method itself."""
        if before.stands_for != self.since:
            raise InputError("the sums that were kept are not those that `since` names")
        _KEPT[self.since] = before
        object.__setattr__(self, "_before", before)  # keeps them as long as the method, for copies of it too
        return self

    @property
    def before(self) -> Statistics:
        """The sums from before."""
        found = _KEPT.get(self.since)
        if found is None:
            raise InputError("an update needs the sums of the run before; in Python, run.update(…) has them")
        return found

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})
        return []

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, give the features, sum the change, let the sites check the solution."""
        classes = yield AgreeOnNames(self.classes)
        known = self.before if shape.known else None
        base = TakeBase(made=b"", hashes=()) if known is None else self._base(known)
        yield Ask(base, SolutionTaken())
        # Until policies are known, with the counts that floors need.
        floors = shape.policy.class_floors if shape.known else (2, 2)
        layout = change_layout(shape.columns, floors)
        size = 2 * len(self.classes or classes) + (layout.length if layout else 0)
        counts = yield Sum(SumChange(classes=classes), size, bound="the floors of the strictest policy")
        lengths = [1] if known is None else [len(part) for part in known.parts]
        results = []
        for part, length in enumerate(lengths):
            spare = self.planned_parts - len(lengths) if part == len(lengths) - 1 else 0
            results.append((yield Sum(SumChangedGram(counts=counts, part=part), length, spare=spare)))
        width = shape.columns if known is None else FeatureProblem(
            self, known.made.seed, (1, 1), shape.columns, len(classes)
        ).width  # fmt: skip
        weights = Array.of(np.zeros((width + 1, len(self.classes or classes))))
        yield Ask(TakeSolution(weights=weights, alpha=1.0, freedom=1.0), SolutionTaken())
        for number, (length, result) in enumerate(zip(lengths, results, strict=True)):
            check = CheckUpdate(number=number, before=Array.of(np.zeros(length)), result=result)
            yield Ask(check, SolutionTaken())

    @staticmethod
    def _base(before: Statistics) -> TakeBase:
        return TakeBase(made=msgspec.msgpack.encode(before.made), hashes=before.hashes)

    def conduct(self, sites: Coordinator) -> RidgeModel:
        """Hold the conversation: join, give the features, sum the change, solve, let the sites check."""
        before = self.before
        cohort = join(sites, self)
        assert self.classes is not None
        kept = agree_on_names(cohort, self.classes)
        plan = FeatureProblem(self, before.made.seed, (1, 1), cohort.columns, len(self.classes))
        self._tell(cohort, self._base(before))
        first = 2 * len(self.classes)
        layout = change_layout(cohort.columns, cohort.class_floors)
        size = first + (layout.length if layout else 0)
        counts = cohort.sum_checked(SumChange(classes=kept), length=size)
        why = set_apart(counts.counts()[first:], layout, cohort.class_floors) if layout else ""
        if why:
            raise InputError(gather_more(why, cohort.class_floors))
        added, removed = counts.counts()[:first].reshape(2, -1).sum(axis=1).tolist()
        asked = [SumChangedGram(counts=counts, part=part) for part in range(len(before.parts))]
        results = cohort.sum_parts(asked)
        bits = change_bits(self, float(added + removed), len(cohort.names))
        after = tuple(
            old + from_fixed(one.total.numpy(), fraction_bits=bits)
            for old, one in zip(before.parts, results, strict=True)
        )
        found = self._solve(after, plan)
        self._tell(
            cohort,
            TakeSolution(weights=Array.of(found.weights), alpha=found.alpha, freedom=max(found.freedom, 0.0)),
        )
        for number, (old, result) in enumerate(zip(before.parts, results, strict=True)):
            self._tell(cohort, CheckUpdate(number=number, before=Array.of(old), result=result))
        sites.artifacts |= Statistics(before.made, after).artifacts()
        sites.metrics |= {
            "sites": len(cohort.left),
            "rows added": added,
            "rows taken out": removed,
            "rows": round(float(after[0][0])),
            "alpha": found.alpha,
        }
        sites.preparation = before.made.preparation()  # changed rows came prepared by it
        return self._model(found, plan, after)

    def _tell(self, cohort: Cohort, question: Any) -> None:
        told = cohort.sites.ask(question, of=cohort.left, expect=SolutionTaken)
        told.need(cohort.min_sites, "that they have looked at it")
        cohort.lost_since(told)

    def _solve(self, parts: Sequence[Floats], plan: FeatureProblem) -> Solution:
        rows = parts[0][0]
        if rows < 1:
            raise InputError(
                f"{rows:,.0f} rows are left after the change; wanted some: were others taken out than were in?"
            )
        return solve(parts, gram_parts(self, plan.width, plan.classes), plan.width, plan.classes, self.alpha)

    def _model(self, found: Solution, plan: FeatureProblem, sums: Sequence[Floats]) -> RidgeModel:
        made = self.before.made
        parts = gram_parts(self, plan.width, plan.classes)
        by = turn_of(sums, parts, found.weights, found.freedom) if self.rule == "discriminant" else None
        ground = made.fit.finished(plan)
        assert self.classes is not None
        final = turned(found.weights, by)
        return RidgeModel.made(self.classes, self.maps, ground, final, found.alpha, made.temperature)


RidgeUpdate.name = "ridge-update"  # said here, so that it is in no list of methods: `Run.update` alone makes it

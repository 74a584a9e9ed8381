"""An update where the data is: products of the features of changed rows, and a look at the new solution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.data.checks import check_known_labels, check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.ridge.checking import SolutionMemory
from fedgeom.methods.ridge.features import check_widths
from fedgeom.methods.ridge.gram import packed_gram, starts
from fedgeom.methods.ridge.learning import Plan, features_of
from fedgeom.methods.ridge.messages import SolutionTaken, TakeSolution
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.statistics import Made, hash_part, stands_for
from fedgeom.methods.ridge.sums import change_bits, check_part, gram_parts, rows_of
from fedgeom.methods.ridge_update.messages import CheckUpdate, SumChange, SumChangedGram, TakeBase
from fedgeom.methods.ridge_update.settings import UpdateSettings, signs_of
from fedgeom.protocols.fixed_point import from_fixed, to_fixed
from fedgeom.protocols.handing_out import UNUSABLE
from fedgeom.protocols.names.messages import CountNames
from fedgeom.protocols.names.site import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite


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

    @classmethod
    def planned_sums(cls, settings: UpdateSettings) -> Sequence[type[SumQuestion]]:
        """Return the sums: names where a policy wants them counted, changed rows, and the change of the products."""
        return (CountNames, SumChange, *(SumChangedGram,) * settings.planned_parts)

    @cached_property
    def codes(self) -> Ints:
        """The class of each changed row, (rows,)."""
        place = {name: at for at, name in enumerate(self.settings.classes)}
        return np.array([place[name] for name in self.table.y.astype(str).tolist()], np.int64)

    @property
    def made(self) -> Made:
        """What the features are made from."""
        if not self.memory.made:
            raise ProtocolError("the features did not come yet")
        return msgspec.msgpack.decode(self.memory.made, type=Made)

    def _plan(self, made: Made) -> Plan:
        return Plan(self.settings, made.seed, (1, 1), self.data.shape[1], len(self.settings.classes))

    @answers(TakeBase)
    def take_base(self, ask: TakeBase) -> SolutionTaken:
        """Take the features and hashes of the sums from before, if they are what the terms stand for."""
        if stands_for(ask.made, ask.hashes) != self.settings.since:
            raise ProtocolError("the features and sums that came are not those that the terms stand for")
        try:
            made = msgspec.msgpack.decode(ask.made, type=Made)
            plan = self._plan(made)
            made.fit.finished(plan)
            made.preparation()
            fits = len(ask.hashes) == len(gram_parts(self.settings, plan.width, plan.classes))
        except UNUSABLE as error:
            raise ProtocolError("the features that came cannot be used") from error
        if not fits:
            raise ProtocolError("the sums from before have another number of parts")
        self.memory.made, self.memory.hashes = ask.made, ask.hashes
        return SolutionTaken()

    @answers(SumChange)
    def sum_change(self, ask: SumChange) -> Contribution:
        """Count rows that are added, and rows that are taken out, by class."""
        self.names.check_agreed(ask.classes)
        signs, classes = signs_of(self.table), len(self.settings.classes)
        counts = [np.bincount(self.codes[signs == one], minlength=classes) for one in (1, -1)]
        return self.contribute(ask, np.concatenate(counts).astype(np.int64))

    def _changed(self, counts: SumResult) -> float:
        """Return how many rows change in all, by a sum that this site has checked, and remember it."""
        self.sums.check_result(counts, SumChange)
        found = counts.counts()
        if found.shape != (2 * len(self.settings.classes),):
            raise ProtocolError("the numbers of changed rows do not fit the classes")
        self.memory.changed = float(found.sum())
        return self.memory.changed

    @answers(SumChangedGram)
    def sum_gram(self, ask: SumChangedGram) -> Contribution:
        """Add up a part of the change of the products."""
        made, changed = self.made, self._changed(ask.counts)
        plan = self._plan(made)
        parts, at = gram_parts(self.settings, plan.width, plan.classes), starts(plan.width, plan.classes)
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

    def _gram(self, plan: Plan, made: Made) -> Floats:
        """Return the products of rows that are added, less those of rows taken out."""
        signs, ground = signs_of(self.table), made.fit.finished(plan)
        total = np.zeros(int(starts(plan.width, plan.classes)[-1]))
        for sign in (1, -1):
            rows = np.flatnonzero(signs == sign)
            features = features_of(rows_of(self.table)[rows], plan, ground)
            total += sign * packed_gram(features, self.codes[rows], plan.classes, plan.width)
        return total

    @answers(TakeSolution)
    def take_solution(self, ask: TakeSolution) -> SolutionTaken:
        """Keep a solution until the sums have shown whether it is one."""
        plan, memory = self._plan(self.made), self.memory.solution
        if memory.weights is None:  # asked the same again, it is kept as it is
            shape = (plan.width + 1, plan.classes)
            memory.take(ask.weights.numpy(), ask.alpha, ask.freedom, self.settings.alpha, shape)
        return SolutionTaken()

    @answers(CheckUpdate)
    def check_update(self, ask: CheckUpdate) -> SolutionTaken:
        """Look at one part of the sums; at the last, decide and keep the model."""
        memory, made = self.memory.solution, self.made
        plan = self._plan(made)
        parts = gram_parts(self.settings, plan.width, plan.classes)
        start = self.joining.memory.sums.index(SumChangedGram.kind)
        if not memory.comes_next(ask.number, ask.result.round, start, len(parts)):
            return SolutionTaken()
        self.sums.check_result(ask.result, SumChangedGram)
        before = ask.before.numpy()
        if before.dtype != np.float64 or hash_part(before) != self.memory.hashes[ask.number]:
            raise ProtocolError("a part of the sums from before is not the one that the terms stand for")
        total = before + from_fixed(ask.result.total.numpy(), fraction_bits=self._bits(self.memory.changed))
        memory.look_at(total, parts[ask.number])
        self.memory.after = (*self.memory.after, hash_part(total))
        if memory.checked == len(parts):
            memory.conclude(self.settings.rule)
            classes, maps, ground = self.settings.classes, self.settings.maps, made.fit.finished(plan)
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

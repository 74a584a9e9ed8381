"""Ridge where the data is: moments, clusters of patches, products of features, and a look at the solution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.checks import check_known_labels, check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.privacy import class_floors, privacy_of
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.ridge import work
from fedgeom.methods.ridge.checking import SolutionMemory
from fedgeom.methods.ridge.core import TEMPERATURES, class_weights, surprise
from fedgeom.methods.ridge.features import check_widths
from fedgeom.methods.ridge.gram import fold_numbers, packed_gram, starts
from fedgeom.methods.ridge.learning import (
    PATCH_BITS,
    Fit,
    Plan,
    cluster_sums,
    column_moments,
    features_of,
    patch_sums,
)
from fedgeom.methods.ridge.messages import (
    CheckPart,
    CountPatches,
    SolutionTaken,
    SumClusters,
    SumColumns,
    SumGram,
    SumPatches,
    SumSurprise,
    TakeSolution,
)
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.private import BoundedGram, BoundedMemory
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.settling import Settling, SettlingMemory
from fedgeom.methods.ridge.statistics import hash_part, made_by, stands_for
from fedgeom.methods.ridge.sums import check_part, gram_bits, gram_parts, planned_sums, rows_of, tried_rows
from fedgeom.protocols.fixed_point import from_fixed, to_fixed, to_wide
from fedgeom.protocols.handing_out import HandedModel
from fedgeom.protocols.names.site import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite


class RidgeMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys and the model: names, features and the solution."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    fit: Fit = msgspec.field(default_factory=Fit)
    last: bytes = b""
    """A hash of the last sum that was taken for the features: asked again, the site takes it once."""
    solution: SolutionMemory = msgspec.field(default_factory=SolutionMemory)
    settling: SettlingMemory = msgspec.field(default_factory=SettlingMemory)
    bounded: BoundedMemory = msgspec.field(default_factory=BoundedMemory)


class RidgeSite(SummingSite[RidgeMemory]):
    """Answers the questions of `Ridge`."""

    memory_type: ClassVar[type[Memory]] = RidgeMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames, Settling, BoundedGram)
    takes_models: ClassVar[bool] = False
    handed: HandedModel[RidgeModel]
    names: LabelNames
    settling: Settling
    bounded: BoundedGram

    def check(self, settings: RidgeSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        names = check_table(self.data, **class_floors(settings, 0, self.policy.min_rows_per_class))
        check_known_labels(self.name, names, settings.classes)
        try:
            features = check_widths(settings.maps, self.data.shape[1], settings.shape, settings.max_features)
            limit = min(self.policy.max_message_bytes, LARGEST_MESSAGE)
            check_part(settings, features, len(settings.classes or names), limit)
        except InputError as error:
            raise InputError(f"site {self.name!r}: {error}") from error

    @classmethod
    def planned_sums(cls, settings: RidgeSettings) -> Sequence[type[SumQuestion]]:
        """Return the sums: names where a policy wants them counted, features, the Gram matrix, temperatures."""
        return planned_sums(settings)

    @property
    def plan(self) -> Plan:
        """What follows from the terms, the seed and the policies."""
        floors, columns = self.joining.class_floors, self.data.shape[1]
        return Plan(self.settings, self.seed, floors, columns, len(self.names.agreed))

    @property
    def rows(self) -> npt.NDArray[Any]:
        """The rows that are summed, in the type in which they came."""
        return rows_of(self.table)

    @cached_property
    def codes(self) -> Ints:
        """The class of each row that is summed, (rows,)."""
        place = {name: at for at, name in enumerate(self.names.agreed)}
        return np.array([place[name] for name in self.table.y.astype(str).tolist()], np.int64)

    @answers(SumColumns)
    def sum_columns(self, ask: SumColumns) -> Contribution:
        """Add up classes and columns."""
        self.names.check_agreed(ask.classes)
        self.check_size(Fit().length(self.plan))
        found = column_moments(self.rows, self.codes, len(ask.classes))
        return self.contribute(ask, to_wide(found, sites=len(ask.ticket.participants)))

    @answers(SumPatches)
    def sum_patches(self, ask: SumPatches) -> Contribution:
        """Add up the patches of this site's images and their squares."""
        fit = self._take(ask.last, SumPatches)
        self.check_size(fit.length(self.plan))
        return self._patches(ask, patch_sums(self.rows, fit, self.plan))

    @answers(CountPatches)
    def count_patches(self, ask: CountPatches) -> Contribution:
        """Count the images that have a patch in each cluster."""
        fit = self._take(ask.last, CountPatches)
        self.check_size(fit.length(self.plan))
        images = self._clusters(fit)[:, 0].astype(np.int64)
        return self.contribute(ask, np.concatenate([images, images > 0]))

    @answers(SumClusters)
    def sum_clusters(self, ask: SumClusters) -> Contribution:
        """Add up the patches of each cluster that was found large enough."""
        fit = self._take(ask.last, SumClusters)
        self.check_size(fit.length(self.plan))
        assert fit.kept is not None
        return self._patches(ask, self._clusters(fit)[fit.kept.numpy(), 1:])

    def _clusters(self, fit: Fit) -> Floats:
        """Return how many images, and which sum of patches, each cluster has: (filters, 1 + cells)."""
        assert fit.centres is not None
        name = work.stamp(self.rows, self.table.y, self.run, self.name.encode(), fit.centres.data)
        return work.once(name, lambda: np.column_stack(cluster_sums(self.rows, fit, self.plan)))

    def _patches(self, ask: SumQuestion, values: Floats) -> Contribution:
        sites = len(ask.ticket.participants)
        return self.contribute(ask, to_fixed(values, fraction_bits=PATCH_BITS, sites=sites))

    @answers(SumGram)
    def sum_gram(self, ask: SumGram) -> Contribution:
        """Add up a part of the products of features."""
        self.names.check_agreed(ask.classes)
        fit, plan = self._take(ask.last, SumGram), self.plan
        parts = gram_parts(self.settings, plan.width, plan.classes)
        start = self.joining.memory.sums.index(SumGram.kind)
        if ask.part >= len(parts) or ask.ticket.round != start + ask.part:
            raise ProtocolError(f"part {ask.part} of the sum is not what round {ask.ticket.round} is for")
        self._check_rows(fit.rows(), plan.width)
        at, (first, last) = starts(plan.width, plan.classes), parts[ask.part]
        self.check_size(int(at[last] - at[first]))
        fold = ask.part * self.settings.folds // len(parts)
        seed = msgspec.msgpack.encode([fit, fold])
        name = work.stamp(self.rows, self.table.y, self.run, self.name.encode(), seed)
        whole = work.once(name, lambda: self._gram(fit, plan, fold))
        if last == plan.width + 1:
            work.forget(name)
        sites = len(self.joining.memory.order)
        bits = gram_bits(self.settings, fit, sites)
        part = to_fixed(whole[at[first] : at[last]], fraction_bits=bits, sites=sites)
        return self.contribute(ask, part, fresh=True)

    def _gram(self, fit: Fit, plan: Plan, fold: int) -> Floats:
        X, codes = self.rows, self.codes
        if self.settings.folds > 1:
            rows = np.flatnonzero(fold_numbers(X, self.settings.folds) == fold)
            X, codes = X[rows], codes[rows]
        weights = class_weights(fit.class_counts()) if self.settings.balanced else None
        return packed_gram(features_of(X, plan, fit.finished(plan)), codes, plan.classes, plan.width, weights)

    def _check_rows(self, rows: float, features: int) -> None:
        """Refuse to sum the products of more features than the policy allows for so many rows of all sites."""
        least = self.policy.min_rows_per_feature
        if rows < least * features:
            raise ProtocolError(
                f"all sites together have {rows:,.0f} rows, and there are {features:,} features; the policy of "
                f"{self.name!r} has min_rows_per_feature = {least:g}: take fewer features"
            )

    def _take(self, last: SumResult, asked: type[SumQuestion]) -> Fit:
        """Take the sum that came before, once, if it is the one that the sites added up; return what follows."""
        memory, plan, stamp = self.memory, self.plan, fingerprint(b"last", msgspec.msgpack.encode(last))
        if memory.last != stamp:
            planned = self.joining.memory.sums
            start = planned.index(SumColumns.kind)
            if last.round != start + memory.fit.taken or memory.fit.taken >= plan.steps:
                raise ProtocolError("the sum that came is not the one that was taken last")
            kind = self.understands()[planned[last.round]]
            assert issubclass(kind, SumQuestion)
            self.sums.check_result(last, kind)
            try:
                memory.fit.take(last.total.numpy(), plan)
            except (ValueError, ArithmeticError) as error:  # by the sum alone, which is the same for all
                raise ProtocolError("no features follow from the sum that came") from error
            memory.last = stamp
        self._check_stage(asked)
        return memory.fit

    def _check_stage(self, asked: type[SumQuestion]) -> None:
        planned, taken = self.joining.memory.sums, self.memory.fit.taken
        if planned[planned.index(SumColumns.kind) + taken] != asked.kind:
            raise ProtocolError("the sum that is asked for does not come next")

    @answers(TakeSolution)
    def take_solution(self, ask: TakeSolution) -> SolutionTaken:
        """Keep a solution until the sums have shown whether it is one."""
        plan = self.plan
        self.memory.fit.finished(plan)
        shape = (plan.width + 1, plan.classes)
        if self.memory.solution.weights is None:  # asked the same again, it is kept as it is
            self.memory.solution.take(ask.weights.numpy(), ask.alpha, ask.freedom, self.settings.alpha, shape)
        return SolutionTaken()

    @answers(CheckPart)
    def check_part(self, ask: CheckPart) -> SolutionTaken:
        """Look at one part of the sum; at the last, decide."""
        memory, plan = self.memory.solution, self.plan
        parts = gram_parts(self.settings, plan.width, plan.classes)
        start = self.joining.memory.sums.index(SumGram.kind)
        if not memory.comes_next(ask.number, ask.result.round, start, len(parts)):
            return SolutionTaken()
        self.sums.check_result(ask.result, SumGram)
        bits = gram_bits(self.settings, self.memory.fit, len(self.joining.memory.order))
        memory.look_at(ask.result.total.view(), parts[ask.number], bits, ask.result.total.data)
        if self.settings.updatable:
            memory.hashes = (*memory.hashes, hash_part(from_fixed(ask.result.total.view(), fraction_bits=bits)))
        if memory.checked == len(parts):
            memory.conclude(self.settings.rule)
        return SolutionTaken()

    @answers(SumSurprise)
    def sum_surprise(self, ask: SumSurprise) -> Contribution:
        """Add up how well each temperature fits this site's rows."""
        solved, rows = self.memory.solution, self.memory.fit.rows()
        chosen = tried_rows(self.rows, rows)
        scores = self._model(solved.ridge(), 1.0).decision_function(self.rows[chosen])
        if len(self.table) == len(self.data):  # rows of classes that are left out have no score here
            solved.note_fit(scores, self.codes[chosen])
        return self.contribute(ask, surprise(scores, self.codes[chosen], solved.freedom, rows, solved.turned_by))

    def joint_model(self, temperature: float) -> RidgeModel:
        """Return the model that the checked solution makes, with this temperature."""
        return self._model(self.memory.solution.final(), temperature)

    def _model(self, weights: Floats, temperature: float) -> RidgeModel:
        ground, alpha = self.memory.fit.finished(self.plan), self.memory.solution.alpha
        return RidgeModel.made(self.names.agreed, self.settings.maps, ground, weights, alpha, temperature)

    def model_from(self, result: SumResult) -> RidgeModel:
        """Make the model with the temperature that fits all rows best, after a look at whether that is their sum."""
        if privacy_of(self.settings) is not None:
            return self.bounded.model_from(result)
        self.sums.check_result(result, SumSurprise)
        return self.joint_model(TEMPERATURES[int(np.argmin(result.reals(SumSurprise)))])

    def result(self) -> dict[str, Any]:
        """Return how well the model fits the site's rows; of very many, those that temperatures were tried on."""
        own, model, known = self.settling.own_model(), self.handed.model, self.memory.solution.fits
        if model is None:
            return {}
        fits = known if own is None and known is not None else self._fits(own or model)
        more = self.settling.result() | self._statistics(model.temperature) | self.names.left_out()
        return {"fits": fits, "rows": len(self.data), **more}

    def _fits(self, model: RidgeModel) -> float:
        rows, fit = rows_of(self.data), self.memory.fit
        chosen = tried_rows(rows, len(rows) if fit.counts is None else fit.rows())
        chosen = chosen if chosen.any() else np.ones(len(rows), bool)
        return float(np.mean(model.predict(rows[chosen]) == self.data.y[chosen].astype(str)))

    def _statistics(self, temperature: float) -> dict[str, Any]:
        """Return what stands for the sums, where they can be updated later."""
        if not self.settings.updatable:
            return {}
        made = made_by(self.memory.fit, self.seed, temperature, self.preparation())
        return {"statistics": stands_for(msgspec.msgpack.encode(made), self.memory.solution.hashes)}

    def model_file(self) -> bytes:
        """Return the site's own model, or the joint one where there is no other."""
        own = self.settling.own_model()
        return super().model_file() if own is None else own.to_bytes()

    def joint_file(self) -> bytes:
        """Return the joint model, where the site has one of its own beside."""
        return b"" if self.settling.own_model() is None else self.memory.handed.model

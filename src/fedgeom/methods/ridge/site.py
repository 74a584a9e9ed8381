"""Ridge where the data is: moments, clusters of patches, products of features, and a look at the solution."""

from __future__ import annotations

import zlib
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.validation import check_known_labels, check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE, Array
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import class_floors, privacy_of
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.memo import Store, memoize_per_object
from fedgeom.methods.ridge.core import (
    GRID,
    Rows,
    best_temperature,
    calibration_nll,
    class_weights,
    fold_numbers,
    packed_gram,
    starts,
    summed_scores,
    trapezoid,
    turn,
    turned,
    turned_scores,
)
from fedgeom.methods.ridge.features import check_widths
from fedgeom.methods.ridge.messages import (
    CheckPart,
    CountBinnedRows,
    CountPatches,
    SolutionTaken,
    SumCalibration,
    SumClusters,
    SumGram,
    SumPatches,
    SumRidgeColumns,
    TakeSolution,
)
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.personal import PersonalMemory, PersonalPart
from fedgeom.methods.ridge.private import BoundedGram, BoundedMemory
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.statistics import (
    PATCH_BITS,
    FeatureFit,
    FeatureProblem,
    cell_counts,
    check_part,
    cluster_sums,
    column_moments,
    features_of,
    gram_bits,
    gram_parts,
    hash_part,
    made_by,
    patch_sums,
    rows_of,
    stands_for,
    tried_rows,
)
from fedgeom.protocols.fixed_point import from_fixed, to_fixed, to_wide
from fedgeom.protocols.model_delivery import DeliveredModel
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

_KEPT = Store[Floats](max_bytes=2**32)
"""Sums of a site's rows of which it was asked for a part."""


def stamp(X: npt.NDArray[Any], y: npt.NDArray[Any], *more: bytes | memoryview) -> bytes:
    """Return a name for work on a table: it differs where the table, or anything else that is given, differs."""
    table = zlib.crc32(np.ascontiguousarray(X).data.cast("B")) if X.size else 0
    labels = zlib.crc32(np.ascontiguousarray(y).tobytes())
    return fingerprint(f"{X.shape} {X.dtype} {table} {labels}".encode(), *more)


PANEL = 128
TOLERANCE = 1e-6
"""How far an equation may be off, beside the largest right-hand side that its feature could have."""


class SolutionMemory(msgspec.Struct, kw_only=True):
    """The solution that came, and what is left of the equations so far."""

    weights: Array | None = None
    """(features + 1, classes), f8"""
    alpha: float = 0.0
    freedom: float = 0.0
    checked: int = 0
    """How many parts were looked at."""
    remainder: Array | None = None
    """(features + 1, classes), f8"""
    diagonal: Array | None = None
    """(features + 1,), f8: of the Gram matrix."""
    scale: Array | None = None
    """(features,), f8: the root of each feature's joint mean square; 1 for features that are always 0."""
    class_scores: Array | None = None
    """(classes + 1, classes), f8: how much the rows of each class count, and their scores, added up."""
    turn: Array | None = None
    """(classes + 1, classes), f8: what turns scores into discriminants, where the terms want these."""
    hashes: tuple[bytes, ...] = ()
    """Of the parts, where the sums can be updated later."""
    fits: float | None = None
    """The share of the site's rows that temperatures were tried on and that are put into their class."""
    good: bool = False
    """Whether all parts were looked at and the solution fits."""

    def take(
        self, weights: Floats, alpha: float, freedom: float, given: float | str, shape: tuple[int, int]
    ) -> None:
        """Take a solution, if it has the shape of one and a λ that the terms allow (``given``)."""
        if weights.dtype != np.float64 or weights.shape != shape or not np.isfinite(weights).all():
            raise ProtocolError("the solution that came is not one of these features and classes")
        if alpha not in GRID if isinstance(given, str) else alpha != given:
            raise ProtocolError("the solution that came has another alpha than the terms allow")
        if not 0 <= freedom <= shape[0] + 1e-6 * shape[0]:
            raise ProtocolError("the solution that came has more degrees of freedom than features")
        self.weights = Array.of(weights)
        self.alpha = alpha
        self.freedom = freedom
        self.remainder = Array.of(np.zeros(shape))
        self.diagonal = Array.of(np.zeros(shape[0]))
        self.class_scores = Array.of(np.zeros((shape[1] + 1, shape[1])))
        self.checked = 0
        self.good = False

    def comes_next(self, number: int, round: int, first: int, parts: int) -> bool:
        """Return whether a part of the sum comes next; False: it was looked at just before, and is asked for again.

        ``round`` is that of the sum that came, ``first`` that of the first part, ``parts`` how many there are.
        """
        if number == self.checked - 1:
            return False
        if self.weights is None or number != self.checked or number >= parts:
            raise ProtocolError(f"unexpected part {number} of the sum; expected part {self.checked}")
        if round != first + number:
            raise ProtocolError(f"this is not part {number} of the sum")
        return True

    def look_at(
        self, vector: Floats | Words, rows: Rows, bits: int | None = None, came: memoryview | None = None
    ) -> None:
        """Take what a part of the sum says of the equations; ``bits``: it is in fixed point, with so many digits.

        ``came`` are the bytes of the message in which it stands: the very same ones are looked at once in a process.
        """
        if self.weights is None or self.remainder is None or self.diagonal is None or self.class_scores is None:
            raise ProtocolError("a part of the sum came before the solution")
        fixed = came if came is not None and isinstance(came.obj, bytes) else None  # which nobody can change
        left, diagonal, scores = _left_of(fixed, vector, rows, self.weights, bits)
        self.remainder = Array.of(self.remainder.numpy() + left)
        self.diagonal = Array.of(self.diagonal.numpy() + diagonal)
        self.class_scores = Array.of(self.class_scores.numpy() + scores)
        self.checked += 1

    def conclude(self, rule: str = "ridge") -> None:
        """Refuse the solution unless it solves the equations that all parts make; follow the terms' rule."""
        assert self.weights is not None
        assert self.remainder is not None
        assert self.diagonal is not None
        W = self.weights.numpy()
        left = self.remainder.numpy()
        diagonal = self.diagonal.numpy()
        rows = max(float(diagonal[0]), 1e-300)
        held = self.alpha * np.maximum(diagonal, 0.0) / rows
        held[0] = 0.0
        left += held[:, None] * W
        bound = TOLERANCE * np.sqrt(rows * np.maximum(diagonal, 0.0)) + TOLERANCE
        if not (np.abs(left) <= bound[:, None]).all():
            raise ProtocolError("the solution that came is not that of the sums which the sites added up")
        root = np.sqrt(np.maximum(diagonal[1:], 0.0) / rows)
        self.scale = Array.of(np.where(root > 0, root, 1.0))
        if rule == "discriminant":
            assert self.class_scores is not None
            sizes, *scores = self.class_scores.numpy()
            self.turn = Array.of(turn(np.array(scores), sizes, self.freedom))
        self.remainder = self.diagonal = self.class_scores = None
        self.good = True

    def ridge(self) -> Floats:
        """Return the weights of the ridge, (features + 1, classes), once they were checked."""
        if not self.good or self.weights is None:
            raise ProtocolError("the solution was not checked yet")
        found: Floats = self.weights.numpy()
        return found

    def final(self) -> Floats:
        """Return the weights that decide as the terms say, (features + 1, classes), once they were checked."""
        return turned(self.ridge(), self.turned_by)

    def note_fit(self, scores: Floats, codes: Ints) -> None:
        """Keep how many rows these ridge scores put into their class: scores (rows, classes), codes (rows,)."""
        if len(codes):
            self.fits = float(np.mean(turned_scores(scores, self.turned_by).argmax(axis=1) == codes))

    @property
    def turned_by(self) -> Floats | None:
        """What turns scores into discriminants, (classes + 1, classes); None where nothing does."""
        return None if self.turn is None else self.turn.numpy()


Left = tuple[Floats, Floats, Floats]
"""What a part of the sum adds to the remainder, to the diagonal and to the classes' scores (`SolutionMemory`)."""


def _follows_from(
    came: memoryview | None, vector: Floats | Words, rows: Rows, weights: Array, bits: int | None
) -> tuple[object, ...]:
    return bytes(weights.data), weights.shape, rows, bits


@memoize_per_object(key=_follows_from)  # all sites of a process are shown the same part, with the same weights
def _left_of(
    came: memoryview | None, vector: Floats | Words, rows: Rows, weights: Array, bits: int | None
) -> Left:
    """Return what a part of the sum leaves of the equations with these weights; ``came`` are the part's bytes.

    It is read a panel at a time: so large a vector is memory that the system has to clear.
    """
    W = weights.view()
    left = np.zeros(W.shape)
    diagonal = np.zeros(len(W))
    at = starts(len(W) - 1, W.shape[1])
    for first in range(rows[0], rows[1], PANEL):  # so few rows that their square stays in a processor's cache
        last = min(first + PANEL, rows[1])
        some: Any = vector[at[first] - at[rows[0]] : at[last] - at[rows[0]]]
        some = some if bits is None else from_fixed(some, fraction_bits=bits)
        upper, ties = trapezoid(some, (first, last), len(W) - 1, W.shape[1])
        own = np.arange(last - first)
        left[first:last] += upper @ W[first:] - 2 * ties
        diagonal[first:last] += upper[own, own]
        if first == 0:  # the targets are ±1: twice the ties to a class, less the sum of the feature
            left += upper[0][:, None]
        upper[own, own] = 0.0
        left[first:] += upper.T @ W[first:last]
    scores, sizes = summed_scores(vector, rows, W, bits)
    return left, diagonal, np.vstack([sizes, scores])


class RidgeMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys and the model: names, features and the solution."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    fit: FeatureFit = msgspec.field(default_factory=FeatureFit)
    last: bytes = b""
    """A hash of the last sum that was taken for the features: asked again, the site takes it once."""
    solution: SolutionMemory = msgspec.field(default_factory=SolutionMemory)
    personal: PersonalMemory = msgspec.field(default_factory=PersonalMemory)
    bounded: BoundedMemory = msgspec.field(default_factory=BoundedMemory)


def too_few_rows(policy: Policy, rows: float, features: int, folds: int) -> str:
    """Say what a policy has against summing the products of so many features over so many rows; "": nothing.

    Where rows are dealt to folds, each fold is a sum of its own.
    """
    least = policy.min_rows_per_feature
    if rows >= least * features * folds:
        return ""
    dealt = f" in {folds} folds" if folds > 1 else ""
    return (
        f"min_rows_per_feature = {least:g}, but all sites together have {rows:,.0f} rows{dealt} for {features:,} "
        'features: take fewer, such as features = "linear", or ["linear", { name = "fourier", n_components = 100 }]'
    )


class RidgeSite(SummingSite[RidgeMemory]):
    """Answers the questions of `Ridge`."""

    memory_type: ClassVar[type[Memory]] = RidgeMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames, PersonalPart, BoundedGram)
    takes_models: ClassVar[bool] = False
    handed: DeliveredModel[RidgeModel]
    names: LabelNames
    personal: PersonalPart
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

    @property
    def plan(self) -> FeatureProblem:
        """What follows from the terms, the seed and the policies."""
        floors = self.joining.class_floors
        columns = self.data.shape[1]
        sites = len(self.joining.memory.order)
        return FeatureProblem(self.settings, self.seed, floors, columns, len(self.names.agreed), sites)

    @property
    def rows(self) -> npt.NDArray[Any]:
        """The rows that are summed, in the type in which they came."""
        return rows_of(self.table)

    @cached_property
    def codes(self) -> Ints:
        """The class of each row that is summed, (rows,)."""
        place = {name: at for at, name in enumerate(self.names.agreed)}
        return np.array([place[name] for name in self.table.y.astype(str).tolist()], np.int64)

    @answers(SumRidgeColumns)
    def sum_columns(self, ask: SumRidgeColumns) -> Contribution:
        """Add up classes and columns."""
        self.names.check_agreed(ask.classes)
        self.check_size(FeatureFit().length(self.plan))
        found = column_moments(self.rows, self.codes, len(ask.classes))
        return self.contribute(ask, to_wide(found, sites=len(ask.ticket.participants)))

    @answers(CountBinnedRows)
    def count_cells(self, ask: CountBinnedRows) -> Contribution:
        """Count this site's rows in cells of bins."""
        fit = self._take(ask.last, CountBinnedRows)
        self.check_size(fit.length(self.plan))
        return self.contribute(ask, cell_counts(self.rows, self.codes, fit, self.plan))

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

    def _clusters(self, fit: FeatureFit) -> Floats:
        """Return how many images, and which sum of patches, each cluster has: (filters, 1 + cells)."""
        assert fit.centres is not None
        name = stamp(self.rows, self.table.y, self.run, self.name.encode(), fit.centres.data)
        return _KEPT.find(name, lambda: np.column_stack(cluster_sums(self.rows, fit, self.plan)))

    def _patches(self, ask: SumQuestion, values: Floats) -> Contribution:
        sites = len(ask.ticket.participants)
        return self.contribute(ask, to_fixed(values, fraction_bits=PATCH_BITS, sites=sites))

    @answers(SumGram)
    def sum_gram(self, ask: SumGram) -> Contribution:
        """Add up a part of the products of features."""
        self.names.check_agreed(ask.classes)
        fit = self._take(ask.last, SumGram)
        plan = self.plan
        parts = gram_parts(self.settings, plan.width, plan.classes)
        start = self.sums.steps().index(SumGram.kind)
        if ask.part >= len(parts) or self.sums.step_of(ask.ticket.round) != start + ask.part:
            raise ProtocolError(f"part {ask.part} of the sum is not what round {ask.ticket.round} is for")
        self._check_rows(fit.rows(), plan.width)
        at = starts(plan.width, plan.classes)
        first, last = parts[ask.part]
        self.check_size(int(at[last] - at[first]))
        fold = ask.part * self.settings.folds // len(parts)
        seed = msgspec.msgpack.encode([fit, fold])
        name = stamp(self.rows, self.table.y, self.run, self.name.encode(), seed)
        whole = _KEPT.find(name, lambda: self._gram(fit, plan, fold))
        if last == plan.width + 1:
            _KEPT.drop(name)
        sites = len(self.joining.memory.order)
        bits = gram_bits(self.settings, fit, sites)
        part = to_fixed(whole[at[first] : at[last]], fraction_bits=bits, sites=sites)
        return self.contribute(ask, part, fresh=True)

    def _gram(self, fit: FeatureFit, plan: FeatureProblem, fold: int) -> Floats:
        X = self.rows
        codes = self.codes
        if self.settings.folds > 1:
            rows = np.flatnonzero(fold_numbers(X, self.settings.folds) == fold)
            X = X[rows]
            codes = codes[rows]
        weights = class_weights(fit.class_counts()) if self.settings.balanced else None
        return packed_gram(features_of(X, plan, fit.finished(plan)), codes, plan.classes, plan.width, weights)

    def _check_rows(self, rows: float, features: int) -> None:
        """Refuse to sum the products of more features than the policy allows for so many rows of all sites."""
        why = too_few_rows(self.policy, rows, features, self.settings.folds)
        if why:
            raise ProtocolError(f"the policy of {self.name!r} has {why}")

    def _take(self, last: SumResult, asked: type[SumQuestion]) -> FeatureFit:
        """Take the sum that came before, once, if it is the one that the sites added up; return what follows."""
        memory = self.memory
        plan = self.plan
        stamp = fingerprint(b"last", msgspec.msgpack.encode(last))
        if memory.last != stamp:
            planned = self.sums.steps()
            start = planned.index(SumRidgeColumns.kind)
            number = self.sums.step_of(last.round)
            if number != start + memory.fit.taken or memory.fit.taken >= plan.steps:
                raise ProtocolError("the sum that came is not the one that was taken last")
            kind = self.understands()[planned[number]]
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
        planned = self.sums.steps()
        taken = self.memory.fit.taken
        expected = planned[planned.index(SumRidgeColumns.kind) + taken]
        if asked.kind != expected:
            raise ProtocolError(f"unexpected sum {asked.kind!r}; expected {expected!r}")

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
        memory = self.memory.solution
        plan = self.plan
        parts = gram_parts(self.settings, plan.width, plan.classes)
        start = self.sums.steps().index(SumGram.kind)
        if not memory.comes_next(ask.number, self.sums.step_of(ask.result.round), start, len(parts)):
            return SolutionTaken()
        self.sums.check_result(ask.result, SumGram)
        bits = gram_bits(self.settings, self.memory.fit, len(self.joining.memory.order))
        memory.look_at(ask.result.total.view(), parts[ask.number], bits, ask.result.total.data)
        if self.settings.updatable:
            memory.hashes = (*memory.hashes, hash_part(from_fixed(ask.result.total.view(), fraction_bits=bits)))
        if memory.checked == len(parts):
            memory.conclude(self.settings.rule)
        return SolutionTaken()

    @answers(SumCalibration)
    def sum_calibration(self, ask: SumCalibration) -> Contribution:
        """Add up how well each temperature fits this site's rows."""
        solved = self.memory.solution
        rows = self.memory.fit.rows()
        least = self.plan.floors[1]
        chosen = tried_rows(self.rows, rows)
        scores = self._model(solved.ridge(), 1.0).class_scores(self.rows[chosen])
        if len(self.table) == len(self.data):  # rows of classes that are left out have no score here
            solved.note_fit(scores, self.codes[chosen])
        return self.contribute(
            ask, calibration_nll(scores, self.codes[chosen], solved.freedom, rows, solved.turned_by, least)
        )

    def joint_model(self, temperature: float) -> RidgeModel:
        """Return the model that the checked solution makes, with this temperature."""
        return self._model(self.memory.solution.final(), temperature)

    def _model(self, weights: Floats, temperature: float) -> RidgeModel:
        ground = self.memory.fit.finished(self.plan)
        alpha = self.memory.solution.alpha
        return RidgeModel.made(self.names.agreed, self.settings.maps, ground, weights, alpha, temperature)

    def model_from(self, result: SumResult) -> RidgeModel:
        """Make the model with the temperature that fits all rows best, after a look at whether that is their sum."""
        if privacy_of(self.settings) is not None:
            return self.bounded.model_from(result)
        self.sums.check_result(result, SumCalibration)
        return self.joint_model(best_temperature(result.reals(SumCalibration)))

    def result(self) -> dict[str, Any]:
        """Return how well the model fits the site's rows; of very many, those that temperatures were tried on."""
        own = self.personal.own_model()
        model = self.handed.model
        known = self.memory.solution.fits
        if model is None:
            return {}
        fits = known if own is None and known is not None else self._fits(own or model)
        more = self.personal.result() | self._statistics(model.temperature) | self.names.left_out()
        return {"fits": fits, "rows": len(self.data), **more}

    def _fits(self, model: RidgeModel) -> float:
        rows = rows_of(self.data)
        fit = self.memory.fit
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
        own = self.personal.own_model()
        return super().model_file() if own is None else own.to_bytes()

    def joint_file(self) -> bytes:
        """Return the joint model, where the site has one of its own beside."""
        return b"" if self.personal.own_model() is None else self.memory.handed.model

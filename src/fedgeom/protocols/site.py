"""The base of all sites that take part in secure sums."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Ints, Words
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, FaultsError, inspect_table
from fedgeom.errors import ContractError, ProtocolError
from fedgeom.federation.holdout import Parts, by_group, part_rows
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.model import Model
from fedgeom.federation.plan import (
    ANY_SHAPE,
    Ask,
    Plan,
    Shape,
    Sum,
    after_names,
    only_steps,
)
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Memory, Part, Site
from fedgeom.privacy.bounded_sums import BoundedVector
from fedgeom.protocols.doubts import DoubtsMemory, DoubtsPart, JudgeModel
from fedgeom.protocols.evaluation import EvaluateModel, EvaluationMemory, EvaluationPart, numbered
from fedgeom.protocols.join.messages import DrawRing, Hello, Meet, Share
from fedgeom.protocols.join.site import JoinMemory, JoinPart, RingDraw, RingMemory
from fedgeom.protocols.model_delivery import DeliveredModel, DeliveryMemory
from fedgeom.protocols.noise import NoiseMemory, NoisePart
from fedgeom.protocols.preparation import (
    FloorColumns,
    PreparationMemory,
    PreparationPart,
    PrepareTables,
    check_no_text,
    names_step,
)
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    MaskedVector,
    SumQuestion,
    SumResult,
    Unmask,
    Witness,
    blank_result,
    hash_asked,
)
from fedgeom.protocols.secure_sum.rules import SumsMemory, bound_of, bounded, draw_of, in_groups
from fedgeom.protocols.secure_sum.site import SumPart

Rows = tuple[int, int]
"""The first of some rows, and the one after the last."""


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a site adds to a sum: ring elements, not yet masked. It is no message, so it cannot leave by mistake."""

    vector: Words
    """(length,), or (rows, columns) for row sums."""
    own_rows: Rows | None = None
    """For row sums: the rows that are the site's own (`fedgeom.protocols.row_sums`)."""
    fresh: bool = False
    """Whether the vector was made for this alone, so that the masks may be added in its place."""
    noisy: bool = False
    """Whether the site's share of noise is in it: in a run with privacy nothing else leaves."""


class SecureMemory(Memory, kw_only=True):
    """What a site remembers of joining, sums and the model; sites with more parts add their memories."""

    asked: dict[str, bytes] = {}
    """For each kind of question that is no sum, and each of its rounds, a hash of the one that was answered."""
    joining: JoinMemory = msgspec.field(default_factory=JoinMemory)
    ring: RingMemory = msgspec.field(default_factory=RingMemory)
    preparing: PreparationMemory = msgspec.field(default_factory=PreparationMemory)
    sums: SumsMemory = msgspec.field(default_factory=SumsMemory)
    noising: NoiseMemory = msgspec.field(default_factory=NoiseMemory)
    handed: DeliveryMemory = msgspec.field(default_factory=DeliveryMemory)
    doubts: DoubtsMemory = msgspec.field(default_factory=DoubtsMemory)
    evaluation: EvaluationMemory = msgspec.field(default_factory=EvaluationMemory)


Mem = TypeVar("Mem", bound=SecureMemory)

OWN_RULES = (Hello, DrawRing, Meet, Share, Confirm, Witness, Unmask)
"""Questions that see themselves to being answered once: their parts say how."""


class SummingSite(Site[Mem]):
    """A site that joins, takes part in secure sums and keeps the joint model.

    A handler of a `SumQuestion` returns ``self.contribute(ask, values)``. That the question was planned, is asked once
    a round, among enough sites and of the right ones, and that what leaves is masked, is seen to here.
    """

    memory_type: ClassVar[type[Memory]] = SecureMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (
        JoinPart,
        RingDraw,
        PreparationPart,
        SumPart,
        NoisePart,
        DeliveredModel,
        DoubtsPart,
        EvaluationPart,
    )
    takes_models: ClassVar[bool] = True
    """Whether the coordinator may hand out the joint model as it likes (`hand_out`); methods that give it in a question
    of their own, or have sites make it from a sum, say False."""
    joining: JoinPart
    ring: RingDraw
    preparing: PreparationPart
    sums: SumPart
    noising: NoisePart
    handed: DeliveredModel[Any]
    doubts: DoubtsPart
    evaluation: EvaluationPart

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for question in cls.understands().values():
            if question.answer is MaskedVector and not issubclass(question, SumQuestion):
                raise TypeError(f"{question.__name__} is answered with masked vectors: make it a SumQuestion")

    @classmethod
    def whole_plan(cls, settings: Any, shape: Shape) -> Plan:
        """Yield a run's steps after joining: preparation, the method's own plan, doubts, the test on held-out rows."""
        draw = draw_of(settings)
        if draw is None:
            yield from cls._plan_for_all(settings, shape)
        else:
            yield from in_groups(cls._plan_for_all(settings, shape), shape, privacy_of(settings) is not None, draw)

    @classmethod
    def _plan_for_all(cls, settings: Any, shape: Shape) -> Plan:
        """Yield the steps as they are where no groups are drawn."""
        classes = yield from cls._prepared_plan(settings, shape)
        if settings.asks_for_doubts:
            yield JudgeModel()
        if settings.holdout is not None:
            matched = classes is None and names_step(settings) is None
            yield EvaluateModel(shape.n_classes if classes is None else classes, by_group(settings), matched)

    @classmethod
    def _prepared_plan(cls, settings: Any, shape: Shape) -> Plan:
        """Yield preparation and the method's own plan; where rows are prepared, names are agreed on before."""
        steps = settings.planned_steps
        if not steps:
            return (yield from settings.plan(shape))
        private = privacy_of(settings) is not None
        agreed = None
        names = names_step(settings)
        if names is not None:
            agreed = yield names
        yield PrepareTables(steps) if settings.preparing else FloorColumns(steps, agreed or ())
        if names is None:
            return (yield from settings.plan(shape))
        return (yield from after_names(settings.plan(shape), shape, private, agreed))

    @classmethod
    def all_sums(cls, settings: Any) -> tuple[type[SumQuestion], ...]:
        """Return the questions whose answers are summed, one for each round, in order.

        They follow from the settings alone. A site answers no other sum: with a second sum of the same data over fewer
        sites, a coordinator could take the difference.
        """
        sums: list[type[SumQuestion]] = []
        for step in cls._steps_of_terms(settings):
            if isinstance(step, Sum):
                sums += [type(step.specimen())] * (step.times + step.spare)
        return tuple(sums)

    @classmethod
    def pairs_meet(cls, settings: Any) -> bool:
        """Return whether every two sites write to each other: where the plan brings sites each other's messages."""
        return any(
            isinstance(step, Ask) and step.specimen().between_sites for step in cls._steps_of_terms(settings)
        )

    @classmethod
    def _steps_of_terms(cls, settings: Any) -> Plan:
        """Yield the steps of a run as they follow from the settings alone."""
        private = privacy_of(settings) is not None

        def result(step: Ask | Sum) -> SumResult | None:
            return blank_result(0, ANY_SHAPE.sites) if isinstance(step, Sum) else None

        return only_steps(cls.whole_plan(settings, ANY_SHAPE), ANY_SHAPE, private, result)

    def examine(self, settings: Any, seed: int = 0) -> None:
        """Look at the whole table, and then at the rows that would be learnt from: a gap in any row is found.

        What is raised, and stays at the site, has all that is wrong, and all that looks odd beside. Of rows that are to
        be prepared only what the steps need is looked at; they are looked at again when they are.
        """
        faults = Collector(self.name)
        with faults.take():
            if settings.preparing:
                self.preparing.check_raw(settings, self.whole)
            else:
                check_no_text(self.whole)
                self.check(settings)
            if settings.holdout is not None and not settings.preparing:
                train, _ = part_rows(self.whole, settings, seed, self.policy)
                blank = self.memory_type(run=self.run, method=self.memory.method)
                type(self)(train, self.identity, self.run, blank, self.method_type).check(settings)  # type: ignore[arg-type]
        if faults.found:
            raise FaultsError([*faults.found, *inspect_table(self.whole)])

    def expected_participants(self, question: SumQuestion) -> Collection[str] | None:
        """Return the sites that may be in a sum, where they follow from the terms, the seed and what was agreed on.

        None, as here: all that are left, so that participants of a sum are among the living of the sums before. A
        method that sums over some of the sites says over whom. Lost sites may always be missing.
        """
        return None

    @property
    def settings(self) -> Any:
        """The method's settings, as the terms on which the site joined have them."""
        return self.joining.settings

    @property
    def seed(self) -> int:
        """The run's seed, from the terms on which the site joined."""
        return self.joining.memory.seed

    @property
    def raw_parts(self) -> Parts:
        """The rows to learn from and those kept aside, as the terms say; before there are any, all and none."""
        joined = bool(self.joining.memory.terms_hash)
        return part_rows(self.whole, self.settings if joined else None, self.seed, self.policy)

    @property
    def data(self) -> SiteData:
        """The rows that the method works on: all of the site's, but for those kept aside for testing."""
        return self.preparing.prepared(self.raw_parts[0], learnt=True)

    @property
    def aside(self) -> SiteData:
        """The rows that are kept aside for testing."""
        return self.preparing.prepared(self.raw_parts[1])

    @cached_property
    def table(self) -> SiteData:
        """The rows that the site adds to sums: all but those of classes that were found too rare."""
        names = getattr(self.memory, "names", None)
        rare = names.rare if names is not None else ()
        return self.data.take(~np.isin(self.data.y.astype(str), rare)) if rare else self.data

    def preparation(self) -> Preparation | None:
        """Return how the rows were prepared."""
        return self.preparing.preparation() if self.joining.memory.terms_hash else None

    def model_file(self) -> bytes:
        """Return the joint model as it was handed out; methods with personal models or own names return those."""
        return self.memory.handed.model

    def outcome(self) -> dict[str, Any]:
        """Return what the site learnt, whether it doubts it, and what it counted on the rows kept aside."""
        return self.result() | self.preparing.result() | self.doubts.result() | self.evaluation.result()

    def joint_file(self) -> bytes:
        """Return the joint model where the site knows it and ends with another of its own; nothing elsewhere."""
        return b""

    def class_numbers(self, model: Model) -> dict[str, int]:
        """Return which class of the joint model each of the site's words means; ``model`` is the site's own."""
        return numbered(model.classes_.tolist())

    def contribute(
        self, ask: SumQuestion, values: npt.ArrayLike, *, own_rows: Rows | None = None, fresh: bool = False
    ) -> Contribution:
        """Return what this site adds to a sum: real numbers (in fixed point), whole ones, or ring elements.

        Unsigned 64-bit words are ring elements as they are; ``fresh``: made for this sum alone, to be masked in place.
        """
        array = np.asarray(values)
        if array.dtype == np.uint64:
            return Contribution(array, own_rows, fresh)
        fixed = bounded(ask, array, bound_of(self.settings), self.name).reshape(array.shape)
        return Contribution(fixed, own_rows, fresh=True)

    def contribute_noisy(self, ask: SumQuestion, whole: Ints | BoundedVector, **bounds: Any) -> Contribution:
        """Return whole numbers with this site's share of noise (`NoisePart.noisy`), for a run with privacy."""
        return Contribution(self.noising.noisy(ask, whole, **bounds), fresh=True, noisy=True)

    def answer(self, question: Question) -> Message:
        """Answer one question; one that asks for a sum is admitted first, and its answer masked."""
        if not isinstance(question, Hello | DrawRing | Meet | Share) and not self.joining.is_done:
            raise ProtocolError("the site was asked before it joined")
        self._check_prepared(question)
        if not isinstance(question, SumQuestion):
            if self.masked and not isinstance(question, OWN_RULES):
                self._take_once(question)
            reply: Message = self.handler(question)(question)
            if isinstance(reply, MaskedVector | Contribution):
                raise ContractError(
                    f"{question.kind!r} is no question for a sum, but was answered with a part of one"
                )
            if self._closed and not reply.harmless:  # the terms should have been refused (`check_settings`)
                raise ProtocolError(
                    f"{self.name!r} shows nothing of this site alone (its policy has secure_only = true, or the terms "
                    f"have privacy), and {reply.kind!r} would"
                )
            return reply
        self.sums.admit(question)
        found = self.handler(question)(question)
        if not isinstance(found, Contribution):
            raise ContractError(f"the handler of {question.kind!r} must return self.contribute(ask, values)")
        if found.noisy != (privacy_of(self.settings) is not None):
            raise ContractError(
                f"{question.kind!r}: noise belongs into all sums of a run with privacy, and only there"
            )
        if question.row_sum != (found.own_rows is not None):
            raise ContractError(
                f"{question.kind!r}: own_rows are given where row_sum = True is stated, and only there"
            )
        if found.own_rows is not None:
            return self.row_sums.mask(question.ticket, found.vector, found.own_rows)  # type: ignore[attr-defined, no-any-return]
        vector = found.vector.ravel()
        if question.checked:
            vector = self.sums.tagged(question.ticket, vector, in_place=found.fresh)
        return self.sums.mask(question.ticket, vector, in_place=found.fresh or question.checked)

    @property
    def _closed(self) -> bool:
        """Whether only sums leave: the policy says so, or the terms of the run that the site has joined."""
        joined = bool(self.joining.memory.terms_hash)
        return self.policy.secure_only or (joined and privacy_of(self.settings) is not None)

    def _check_prepared(self, question: Question) -> None:
        """Refuse a question of the method before the rows are prepared, where the terms prepare them."""
        early = isinstance(question, OWN_RULES) or question.kind.startswith(("prepare.", "names."))
        if not early and self.preparing.wanted and not self.preparing.memory.done:
            raise ProtocolError(f"{question.kind!r} is asked before the rows are prepared")

    def _take_once(self, question: Question) -> None:
        """Refuse a question that differs from the one of its kind, and round, that was answered before.

        Repeated variants of a question would leak more than the terms say, by answers or by refusals. The same question
        gets the same answer again: a coordinator that died did not receive it.
        """
        numbers = [str(getattr(question, name)) for name in ("round", "wave", "number") if hasattr(question, name)]
        key = " ".join([question.kind, *numbers])
        asked = hash_asked(question)
        if self.memory.asked.setdefault(key, asked) != asked:
            raise ProtocolError(f"another question {key!r} was answered in this run already; one is answered once")


PartMem = TypeVar("PartMem", bound=msgspec.Struct)


class SummingPart(Part[PartMem]):
    """A part of a `SummingSite` that is a method's own: it joins with the others and contributes to sums."""

    site: SummingSite[Any]

    @property
    def joining(self) -> JoinPart:
        """The part that joined: it has the terms and the common secret."""
        return self.site.joining

    @property
    def settings(self) -> Any:
        """The method's settings, as the terms on which the site joined have them."""
        return self.site.settings

    def contribute(self, ask: SumQuestion, values: npt.ArrayLike) -> Contribution:
        """Return what this site adds to a sum (`SummingSite.contribute`)."""
        return self.site.contribute(ask, values)

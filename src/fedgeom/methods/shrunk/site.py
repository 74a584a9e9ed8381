"""The site's side: terms for the joint model, evidence for the choice, and a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.iterative.agreement import Agreement, AgreementMemory, SumColumns, check_site, within
from fedgeom.methods.iterative.messages import Finished
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.personal import folds
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.tree import Tree
from fedgeom.methods.shrunk.choosing import Evidence, blend, gather, shares
from fedgeom.methods.shrunk.core import Terms, personal, site_terms, terms_length
from fedgeom.methods.shrunk.descent import Descent
from fedgeom.methods.shrunk.messages import Settle, SumEvidence, SumTerms
from fedgeom.methods.shrunk.settings import ShrunkSettings
from fedgeom.protocols.names.messages import CountNames
from fedgeom.protocols.names.site import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

STEEPEST = 1e6
"""No model of scaled columns has larger entries; with much larger ones, scores overflow."""


class ShrunkMemory(SecureMemory, kw_only=True):
    """What a site remembers of its evidence, and the model it ends with."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    agreement: AgreementMemory = msgspec.field(default_factory=AgreementMemory)
    descent: Descent | None = None
    """How far the joint models have come; None: no sum of terms was taken yet."""
    last: bytes = b""
    """A hash of the sum that was taken last: asked again, the site takes it once."""
    evidence: Array | None = None
    """(ridges·strengths + ridges + 2,), f8"""
    score_spread: Array | None = None
    """(ridges, strengths), f8: how far each candidate's held-out scores spread."""
    model: Array | None = None
    """(1 + columns,): intercept and weights of the site's own model."""
    joint: Array | None = None
    """(1 + columns,): those of the joint model, where it is tested beside the site's own."""


class ShrunkSite(SummingSite[ShrunkMemory]):
    """Answers the questions of `Shrunk`."""

    memory_type: ClassVar[type[Memory]] = ShrunkMemory
    takes_models: ClassVar[bool] = False
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames, Agreement)
    agreement: Agreement
    names: LabelNames

    def check(self, settings: ShrunkSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        check_site(self.data, settings, self.policy)

    @classmethod
    def planned_sums(cls, settings: ShrunkSettings) -> Sequence[type[SumQuestion]]:
        """Return the count of names, the columns' sum if they are scaled jointly, Newton's steps, and the evidence."""
        columns = (SumColumns,) if settings.scale == "joint" else ()
        return (CountNames, *columns, *[SumTerms] * settings.rounds, SumEvidence)

    def _table(self) -> tuple[ShrunkSettings, Floats, Ints, Ints]:
        """Return the method, the scaled rows, their outcomes and folds: the same whenever asked."""
        y, settings = self.agreement.label_indices(), self.settings
        return settings, self.agreement.scaled(), y, fold_of(y, settings.folds, self.seed, self.name)

    def _descent(self, last: SumResult | None) -> Descent:
        """Take the sum that came before, once, if it is the one that the sites added up; return what follows."""
        memory, settings, columns = self.memory, self.settings, self.data.X.shape[1]
        stack = len(settings.ridges), settings.folds + 1
        state = memory.descent or Descent.start(*stack, columns)
        stamp = fingerprint(b"last", msgspec.msgpack.encode(last))
        if stamp == memory.last or (
            last is None and not state.taken
        ):  # asked the same again, or for the first time
            return state
        if last is None or last.round != self.joining.memory.sums.index(SumTerms.kind) + state.taken:
            raise ProtocolError("the sum that came is not the one that was taken last")
        self.sums.check_result(last, SumTerms)
        if last.total.shape != (terms_length(stack, columns),):
            raise ProtocolError(f"the sum of terms does not fit a table of {columns} columns")
        try:  # it depends on the sum alone, which is the same for all
            state.take(Terms.read(last.reals(SumTerms), stack, columns), settings.ridges)
        except np.linalg.LinAlgError as error:
            raise ProtocolError("no joint models follow from the sum that came") from error
        if not within(state.at.numpy(), STEEPEST):
            raise ProtocolError("the joint models that follow from the sum that came are not finite, or too steep")
        memory.descent, memory.last = state, stamp
        return state

    @answers(SumTerms)
    def sum_terms(self, ask: SumTerms) -> Contribution:
        """Add this site's terms to the secure sum."""
        self.agreement.check_agreed(ask.agreed)
        columns, stack = self.data.X.shape[1], len(self.settings.ridges) * (self.settings.folds + 1)
        self.check_size(stack * (1 + columns + columns * (columns + 1) // 2))
        _, X, y, fold = self._table()
        state = self._descent(ask.last)
        if state.taken != ask.ticket.round - self.joining.memory.sums.index(SumTerms.kind):
            raise ProtocolError("the sum that came is not the one that was taken last")
        found = site_terms(X, y, fold, state.at.numpy())
        return self.contribute(ask, found.flat())

    @answers(SumEvidence)
    def sum_evidence(self, ask: SumEvidence) -> Contribution:
        """Add this site's evidence to the secure sum."""
        self.agreement.check_agreed(ask.agreed)
        method, X, y, fold = self._table()
        state = self._descent(ask.last)
        if state.taken != method.rounds:
            raise ProtocolError("the evidence was asked for before all steps towards the joint models were taken")
        own, spread = gather(X, y, fold, state.good.numpy(), method.strengths)
        self.memory.evidence, self.memory.score_spread = Array.of(own.flat()), Array.of(spread)
        return self.contribute(ask, own.flat())

    @answers(Settle)
    def settle(self, ask: Settle) -> Finished:
        """Make the site's own model: candidates around the joint ones, mixed by the evidence."""
        self.agreement.check_agreed(ask.agreed)
        (method, X, y, _), memory = self._table(), self.memory
        size = (len(method.ridges), len(method.strengths))
        if memory.evidence is None or memory.score_spread is None or memory.descent is None:
            raise ProtocolError("the site was asked to settle before it gave its evidence")
        self.sums.check_result(ask.evidence, SumEvidence)
        if ask.evidence.total.shape != memory.evidence.shape:
            raise ProtocolError(f"the evidence is not {memory.evidence.shape} numbers")
        own = Evidence.read(memory.evidence.numpy(), *size)
        joint = memory.descent.good.numpy()[:, -1]
        everybody = Evidence.read(ask.evidence.reals(SumEvidence), *size)
        w, b = own_model(method, X, y, joint, own, everybody, memory.score_spread.numpy())
        memory.model = Array.of(np.concatenate([[b], w]))  # the layout of a logistic learner: intercept, weights
        if self.settings.holdout is not None:
            w, b, _ = joint_model(method, joint, everybody)
            memory.joint = Array.of(np.concatenate([[b], w]))
        return Finished()

    def result(self) -> dict[str, Any]:
        """Return the site's own model and the scale of its columns."""
        if self.memory.model is None:
            return {}
        centre, spread = self.agreement.scale
        classes = list(self.memory.agreement.classes)
        found = {"model": self.memory.model.numpy(), "centre": centre, "spread": spread, "classes": classes}
        return found | self.names.left_out()

    def model_file(self) -> bytes:
        """Return the site's own model."""
        return self._file(self.result())

    def joint_file(self) -> bytes:
        """Return the joint model on the site's scale."""
        joint = self.memory.joint
        return b"" if joint is None else self._file(self.result() | {"model": joint.numpy()})

    def _file(self, found: dict[str, Any]) -> bytes:
        if not found:
            return b""
        columns = self.data.X.shape[1]
        blank = as_model(self.memory.agreement.classes, np.zeros(columns), 0.0, None, None)
        return blank.for_site(found).to_bytes()


def as_model(
    classes: Sequence[str], w: Floats, b: float, centre: Floats | None, spread: Floats | None
) -> TrainedModel:
    """Return direction and intercept as a model: a logistic one.

    w, centre and spread (columns,), f8.
    """
    return TrainedModel(
        method="shrunk",
        names=tuple(classes),
        learner="logistic",
        options={},
        parameters=Tree(intercept=np.array([b]), weights=w[:, None]),
        columns=len(w),
        centre=centre,
        spread=spread,
    )


def fold_of(y: Ints, count: int, seed: int, site: str) -> Ints:
    """Return each row's fold."""
    place = np.empty(len(y), np.int64)
    for number, members in enumerate(folds(y, generator(seed, LAST, site, purpose=3), count)):
        place[members] = number
    return place


def joint_model(method: ShrunkSettings, directions: Floats, evidence: Evidence) -> tuple[Floats, float, Floats]:
    """Return direction and intercept for a newcomer (without any shrinking back), and everybody's shares.

    directions (ridges, d); returns (d,), f8, a number, and (ridges, strengths), f8.
    """
    weights = shares(None, evidence, borrowed=method.borrowed, temperature=method.temperature)
    kept = weights[:, -1] if weights[:, -1].sum() > 0 else weights.sum(axis=1)
    kept = kept / kept.sum()
    mean = evidence.intercepts / max(evidence.rows, 1.0)
    return kept @ directions, float(kept @ mean), weights


def own_model(
    method: ShrunkSettings,
    X: Floats,
    y: Ints,
    joint: Floats,
    own: Evidence,
    everybody: Evidence,
    spread: Floats,
) -> tuple[Floats, float]:
    """Return a site's direction and intercept.

    X (n, d), y (n,), joint (ridges, d), spread (ridges, strengths); returns (d,), f8, and a number.
    """
    weights = shares(own, everybody, borrowed=method.borrowed, temperature=method.temperature)
    directions, intercepts = np.zeros((*weights.shape, X.shape[1])), np.zeros(weights.shape)
    for a, s in np.argwhere(weights > 1e-3):
        directions[a, s], intercepts[a, s] = personal(X, y, joint[a], float(method.strengths[s]))
    weights = np.where(weights > 1e-3, weights, 0.0)
    return blend(weights / weights.sum(), spread, directions, intercepts)

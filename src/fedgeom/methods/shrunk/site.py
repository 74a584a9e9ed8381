"""The site's side: terms for the joint model, evidence for the choice, and a model of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array, Key, Question
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.iterative.messages import Finished
from fedgeom.methods.iterative.personal import folds
from fedgeom.methods.iterative.setup import Agreement, AgreementMemory, check_site, within
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.shrunk.core import (
    Descent,
    RankingEvidence,
    Terms,
    as_model,
    blend,
    gather_all,
    held_back,
    intercept,
    personal,
    shares,
    site_terms,
    terms_length,
    told_apart,
)
from fedgeom.methods.shrunk.settings import ShrunkSettings
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import BY_GROUP, SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite


class SumTerms(SumQuestion, kind="shrunk.terms", reals=True, checked=True, in_groups=True):
    """Ask for the masked loss, gradient and Hessian at a stack of joint directions."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the sum over sites of the loss, its gradient and its Hessian at the joint models, "
        "with and without each fold"
    ) + BY_GROUP
    last: SumResult | None = None
    """The sum before this one, from which the joint models so far follow; None: they are zero."""
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`fedgeom.methods.iterative.setup`)."""


class SumRankingEvidence(SumQuestion, kind="shrunk.evidence", reals=True, checked=True, in_groups=True):
    """Ask how well each candidate ranks the site's held-out rows, masked."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the mean AUC of each candidate on held-out rows, rows and rarer rows, mean "
        "intercepts; of more than two classes for each"
    ) + BY_GROUP
    last: SumResult
    """The last sum of terms, from which the joint models follow."""
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`fedgeom.methods.iterative.setup`)."""


class TakeRankingEvidence(Question, kind="shrunk.take-evidence", answer=Finished):
    """Give a site everybody's evidence on the joint models; its own model stays there."""

    agreed: Key
    """A hash of the classes and the scale that all sites were told (`fedgeom.methods.iterative.setup`)."""
    evidence: SumResult
    """(outcomes·(ridges·strengths + ridges + 2),): everybody's evidence, added up."""


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
    """(outcomes·(ridges·strengths + ridges + 2),), f8"""
    score_spread: Array | None = None
    """(outcomes, ridges, strengths), f8: how far each candidate's held-out scores spread."""
    model: Array | None = None
    """((1 + columns)·outcomes,): intercepts and weights of the site's own model."""
    joint: Array | None = None
    """The same shape: those of the joint model, which is judged and tested beside the site's own."""


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

    def _table(self) -> tuple[ShrunkSettings, Floats, Ints, Ints]:
        """Return the method, the scaled rows, their outcomes and folds: the same whenever asked."""
        y = self.agreement.label_indices()
        settings = self.settings
        fold = fold_of(y, settings.n_folds, self.seed, self.name)
        return settings, self.agreement.scaled(), told_apart(y, self._classes), fold

    @property
    def _classes(self) -> int:
        return len(self.memory.agreement.classes)

    @property
    def _first_step(self) -> int:
        """The number of the first sum of terms."""
        return self.sums.steps().index(SumTerms.kind)

    def _descent(self, last: SumResult | None) -> Descent:
        """Take the sum that came before, once, if it is the one that the sites added up; return what follows."""
        memory = self.memory
        settings = self.settings
        columns = self.data.X.shape[1]
        stack = settings.stack(self._classes)
        state = memory.descent or Descent.start(stack[0], stack[1], columns)
        stamp = fingerprint(b"last", msgspec.msgpack.encode(last))
        if stamp == memory.last or (
            last is None and not state.taken
        ):  # asked the same again, or for the first time
            return state
        if last is None or self.sums.step_of(last.round) != self._first_step + state.taken:
            raise ProtocolError("the sum that came is not the one that was taken last")
        self.sums.check_result(last, SumTerms)
        if last.total.shape != (terms_length(stack, columns),):
            raise ProtocolError(f"the sum of terms does not fit a table of {columns} columns")
        try:  # it depends on the sum alone, which is the same for all
            state.take(Terms.read(last.reals(SumTerms), stack, columns), ridges_of(settings, stack))
        except np.linalg.LinAlgError as error:
            raise ProtocolError("no joint models follow from the sum that came") from error
        if not within(state.at.numpy(), STEEPEST):
            raise ProtocolError("the joint models that follow from the sum that came are not finite, or too steep")
        memory.descent = state
        memory.last = stamp
        return state

    @answers(SumTerms)
    def sum_terms(self, ask: SumTerms) -> Contribution:
        """Add this site's terms to the secure sum."""
        self.agreement.check_agreed(ask.agreed)
        self.check_size(terms_length(self.settings.stack(self._classes), self.data.X.shape[1]))
        _, X, told, fold = self._table()
        state = self._descent(ask.last)
        if state.taken != self.sums.step_of(ask.ticket.round) - self._first_step:
            raise ProtocolError("the sum that came is not the one that was taken last")
        found = site_terms(X, told, fold, state.at.numpy())
        return self.contribute(ask, found.flat())

    @answers(SumRankingEvidence)
    def sum_evidence(self, ask: SumRankingEvidence) -> Contribution:
        """Add this site's evidence to the secure sum."""
        self.agreement.check_agreed(ask.agreed)
        method, X, told, fold = self._table()
        state = self._descent(ask.last)
        if state.taken != method.n_rounds:
            raise ProtocolError("the evidence was asked for before all steps towards the joint models were taken")
        found, spread = gather_all(X, told, fold, state.good.numpy(), method.strengths(len(told)))
        own = np.concatenate([one.flat() for one in found])
        self.memory.evidence = Array.of(own)
        self.memory.score_spread = Array.of(spread)
        return self.contribute(ask, own)

    @answers(TakeRankingEvidence)
    def settle(self, ask: TakeRankingEvidence) -> Finished:
        """Make the site's own model: candidates around the joint ones, mixed by the evidence."""
        self.agreement.check_agreed(ask.agreed)
        method, X, told, _ = self._table()
        memory = self.memory
        size = (len(method.ridges), len(method.strengths(len(told))))
        if memory.evidence is None or memory.score_spread is None or memory.descent is None:
            raise ProtocolError("the site was asked to settle before it gave its evidence")
        self.sums.check_result(ask.evidence, SumRankingEvidence)
        if ask.evidence.total.shape != memory.evidence.shape:
            raise ProtocolError(f"the evidence is not {memory.evidence.shape} numbers")
        own = RankingEvidence.read_all(memory.evidence.numpy(), *size)
        joint = memory.descent.good.numpy()[:, -1]
        everybody = RankingEvidence.read_all(ask.evidence.reals(SumRankingEvidence), *size)
        w, b = own_model(method, X, told, joint, own, everybody, memory.score_spread.numpy())
        memory.model = Array.of(np.concatenate([b, w.ravel()]))  # the layout of a logistic learner
        w, b, _ = joint_model(method, joint, everybody)
        memory.joint = Array.of(np.concatenate([b, w.ravel()]))
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
        classes = self.memory.agreement.classes
        width = len(found["model"]) // (1 + columns)
        blank = as_model(classes, np.zeros((columns, width)), np.zeros(width), None, None)
        return blank.for_site(found).to_bytes()


def fold_of(y: Ints, count: int, seed: int, site: str) -> Ints:
    """Return each row's fold."""
    place = np.empty(len(y), np.int64)
    for number, members in enumerate(folds(y, generator(seed, LAST, site, purpose=3), count)):
        place[members] = number
    return place


def ridges_of(method: ShrunkSettings, stack: tuple[int, int]) -> Floats:
    """Return the α of each joint model, (outcomes·ridges,)."""
    return np.tile(method.ridges, stack[0] // len(method.ridges))


def joint_model(
    method: ShrunkSettings, directions: Floats, evidence: Sequence[RankingEvidence]
) -> tuple[Floats, Floats, Floats]:
    """Return directions and intercepts for a newcomer (without any shrinking back), and everybody's shares.

    directions (outcomes·ridges, d); returns (d, outcomes), (outcomes,) and (outcomes, ridges, strengths), f8.
    """
    w = []
    b = []
    weights = []
    for mine, one in zip(directions.reshape(len(evidence), -1, directions.shape[1]), evidence, strict=True):
        found = shares(None, one, borrowed=method.prior_rows, temperature=method.temperature)
        kept = found[:, -1] if found[:, -1].sum() > 0 else found.sum(axis=1)
        kept = kept / kept.sum()
        w.append(kept @ mine)
        b.append(float(kept @ (one.intercepts / max(one.rows, 1.0))))
        weights.append(found)
    return np.array(w).T, np.array(b), np.array(weights)


def own_model(
    method: ShrunkSettings,
    X: Floats,
    told: Ints,
    joint: Floats,
    own: Sequence[RankingEvidence],
    everybody: Sequence[RankingEvidence],
    spread: Floats,
) -> tuple[Floats, Floats]:
    """Return a site's directions and intercepts.

    X (n, d), told (outcomes, n), joint (outcomes·ridges, d), spread (outcomes, ridges, strengths); returns
    (d, outcomes) and (outcomes,), f8.
    """
    strengths = method.strengths(len(told))
    held = held_back(X, len(told))
    found = []
    for at, (y, mine) in enumerate(zip(told, joint.reshape(len(told), -1, joint.shape[1]), strict=True)):
        weights = shares(own[at], everybody[at], borrowed=method.prior_rows, temperature=method.temperature)
        directions = np.zeros((*weights.shape, X.shape[1]))
        intercepts = np.zeros(weights.shape)
        for a, s in np.argwhere(weights > 1e-3):
            directions[a, s], intercepts[a, s] = personal(X, y, mine[a], float(strengths[s]), held)
        weights = np.where(weights > 1e-3, weights, 0.0)
        w, b = blend(weights / weights.sum(), spread[at], directions, intercepts)
        # Classes are compared by their scores, so that an intercept has to fit the spread that directions were given.
        found.append((w, b if len(told) == 1 else intercept(X, y, w)))
    return np.array([w for w, _ in found]).T, np.array([b for _, b in found])

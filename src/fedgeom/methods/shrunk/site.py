"""The site's side: terms for the joint model, evidence for the choice, and a model of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import Memory, answers
from fedgeom.methods.iterative.aggregation import FRACTION_BITS, LARGEST
from fedgeom.methods.iterative.messages import Finished
from fedgeom.methods.iterative.personal import folds
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.tabular import TabularMemory, TabularSite, within
from fedgeom.methods.shrunk.choosing import Evidence, blend, gather, shares
from fedgeom.methods.shrunk.fits import Classes, Floats, personal, site_terms
from fedgeom.methods.shrunk.messages import GiveEvidence, GiveTerms, Settle
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.secure_sum import MaskedVector

if TYPE_CHECKING:
    from fedgeom.methods.shrunk.method import Shrunk


STEEPEST = 1e6
"""No model of scaled columns has larger entries; with much larger ones, scores overflow."""


class ShrunkMemory(TabularMemory, kw_only=True):
    """What a site remembers of its evidence."""

    evidence: Array | None = None
    score_spread: Array | None = None
    """How far each candidate's held-out scores spread."""


class ShrunkSite(TabularSite[ShrunkMemory]):
    """Answers the questions of `Shrunk`."""

    memory_type: ClassVar[type[Memory]] = ShrunkMemory

    def _table(self) -> tuple[Shrunk, Floats, Classes, Classes]:
        """Return the method, the scaled rows, their outcomes and folds: the same whenever asked."""
        y = self.places()
        return self.method, self.scaled(), y, fold_of(y, self.method.folds, self.seed, self.badge.name)

    def _directions(self, array: Array, method: Shrunk, columns: int) -> Floats:
        found = array.numpy()
        if found.shape != (len(method.ridges), method.folds + 1, columns) or not within(found, STEEPEST):
            raise ProtocolError(
                f"the joint models of shape {found.shape} do not fit this table, or are not finite"
            )
        return found

    @answers(GiveTerms)
    def give_terms(self, ask: GiveTerms) -> MaskedVector:
        """Add this site's terms to the secure sum."""
        self.admit(ask.ticket)
        method, X, y, fold = self._table()
        found = site_terms(X, y, fold, self._directions(ask.directions, method, X.shape[1]))
        sites = len(ask.ticket.participants)
        return self.mask(ask.ticket, to_fixed(found.flat(), fraction_bits=FRACTION_BITS, sites=sites))

    @answers(GiveEvidence)
    def give_evidence(self, ask: GiveEvidence) -> MaskedVector:
        """Add this site's evidence to the secure sum."""
        self.admit(ask.ticket)
        method, X, y, fold = self._table()
        joint = self._directions(ask.directions, method, X.shape[1])
        own, spread = gather(X, y, fold, joint, method.strengths)
        self.memory.evidence, self.memory.score_spread = Array.of(own.flat()), Array.of(spread)
        sites = len(ask.ticket.participants)
        return self.mask(ask.ticket, to_fixed(own.flat(), fraction_bits=FRACTION_BITS, sites=sites))

    @answers(Settle)
    def settle(self, ask: Settle) -> Finished:
        """Make the site's own model: candidates around the joint ones, mixed by the evidence."""
        (method, X, y, _), memory = self._table(), self.memory
        size = (len(method.ridges), len(method.strengths))
        if memory.evidence is None or memory.score_spread is None:
            raise ProtocolError("the site was asked to settle before it gave its evidence")
        if ask.evidence.shape != memory.evidence.shape or not within(ask.evidence.numpy(), LARGEST):
            raise ProtocolError(f"the evidence is not {memory.evidence.shape} finite numbers")
        own = Evidence.read(memory.evidence.numpy(), *size)
        joint = self._directions(ask.directions, method, X.shape[1])[:, -1]
        everybody = Evidence.read(ask.evidence.numpy(), *size)
        w, b = own_model(method, X, y, joint, own, everybody, memory.score_spread.numpy())
        memory.model = Array.of(np.concatenate([[b], w]))  # the layout of a logistic learner: intercept, weights
        return Finished()


def fold_of(y: Classes, count: int, seed: int, site: str) -> Classes:
    """Return each row's fold."""
    place = np.empty(len(y), np.int64)
    for number, members in enumerate(folds(y, generator(seed, LAST, site, purpose=3), count)):
        place[members] = number
    return place


def own_model(
    method: Shrunk, X: Floats, y: Classes, joint: Floats, own: Evidence, everybody: Evidence, spread: Floats
) -> tuple[Floats, float]:
    """Return a site's direction and intercept."""
    weights = shares(own, everybody, borrowed=method.borrowed, temperature=method.temperature)
    directions, intercepts = np.zeros((*weights.shape, X.shape[1])), np.zeros(weights.shape)
    for a, s in np.argwhere(weights > 1e-3):
        directions[a, s], intercepts[a, s] = personal(X, y, joint[a], float(method.strengths[s]))
    weights = np.where(weights > 1e-3, weights, 0.0)
    return blend(weights / weights.sum(), spread, directions, intercepts)

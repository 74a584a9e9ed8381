"""The coordinator's side: Newton's steps by secure sums, one sum of evidence, and the choice left to the sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedgeom.federation.messages import Array
from fedgeom.methods.iterative.aggregation import FRACTION_BITS
from fedgeom.methods.iterative.messages import Finished
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.tabular import TabularConversation
from fedgeom.methods.shrunk.choosing import Evidence, shares
from fedgeom.methods.shrunk.fits import Floats, Terms, descend, terms_length
from fedgeom.methods.shrunk.messages import GiveEvidence, GiveTerms, Settle
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.secure_sum import Ask

if TYPE_CHECKING:
    from fedgeom.methods.shrunk.method import Shrunk


class ShrunkConversation(TabularConversation["Shrunk"]):
    """One run of `Shrunk`."""

    def hold(self) -> TrainedModel:
        """Hold the whole conversation."""
        row = self.row
        self.agree()
        row.check_shape(len(self.classes), self.columns)
        stack = (len(row.ridges), row.folds + 1)

        def summed(directions: Floats) -> Terms:
            given = Array.of(directions)
            length = terms_length(stack, self.columns)
            total = self._numbers(lambda ticket: GiveTerms(ticket=ticket, directions=given), length)
            return Terms.read(total, stack, self.columns)

        directions = descend(summed, row.ridges, row.folds + 1, self.columns, row.rounds)
        given, size = Array.of(directions), (len(row.ridges), len(row.strengths))
        length = size[0] * size[1] + size[0] + 2
        flat = self._numbers(lambda ticket: GiveEvidence(ticket=ticket, directions=given), length)
        settle = Settle(directions=given, evidence=Array.of(flat))
        self.sites.ask(settle, of=self.members, expect=Finished)
        return self._joint(directions[:, -1], Evidence.read(flat, *size))

    def _numbers(self, ask: Ask, length: int) -> Floats:
        """Sum real numbers over the sites that are left."""
        total = self.sum(ask, length, self.members)
        self.members = total.sites
        return from_fixed(total.vector, fraction_bits=FRACTION_BITS)

    def _joint(self, directions: Floats, evidence: Evidence) -> TrainedModel:
        """Return the model for a newcomer: what everybody's evidence says, without any shrinking back."""
        row = self.row
        w, b, weights = joint_model(row, directions, evidence)
        best = np.unravel_index(int(np.argmax(weights)), weights.shape)
        self.sites.metrics |= {
            "sites": len(self.members),
            "classes": 2,
            "numbers": 1 + len(w),
            "held-out AUC of the best candidate": round(
                float(evidence.quality[best] / max(evidence.weight, 1)), 4
            ),
            "its ridge": float(row.ridges[best[0]]),
            "its strength": float(row.strengths[best[1]]),
        }
        centre, spread = self.scale()
        return joint_as_model(row, self.classes, w, b, centre, spread)


def joint_model(row: Shrunk, directions: Floats, evidence: Evidence) -> tuple[Floats, float, Floats]:
    """Return direction and intercept for a newcomer, and everybody's shares of the candidates."""
    weights = shares(None, evidence, borrowed=row.borrowed, temperature=row.temperature)
    kept = weights[:, -1] if weights[:, -1].sum() > 0 else weights.sum(axis=1)
    kept = kept / kept.sum()
    mean = evidence.intercepts / max(evidence.rows, 1.0)
    return kept @ directions, float(kept @ mean), weights


def joint_as_model(
    row: Shrunk, classes: Sequence[str], w: Floats, b: float, centre: Floats | None, spread: Floats | None
) -> TrainedModel:
    """Return the model file's model: a logistic one."""
    return TrainedModel(
        method=row.name,
        names=tuple(classes),
        learner="logistic",
        options={},
        parameters={"intercept": np.array([b]), "weights": w[:, None]},
        columns=len(w),
        centre=centre,
        spread=spread,
    )

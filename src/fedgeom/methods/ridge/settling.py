"""Personal ridges at a site: evidence on how far to go one's own way, and the model that follows from everybody's."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import answers
from fedgeom.methods.ridge.messages import Settle, SolutionTaken, SumEvidence
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.personal import STRENGTHS, OwnRidge, choose, evidence, own_ridge, settled
from fedgeom.protocols.site import Contribution, SummingPart


class SettlingMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: its own evidence, and what it adds to the joint weights."""

    evidence: Array | None = None
    """(strengths + 1,), f8"""
    strength: float = 0.0
    """The τ that the site chose; 0 before it has."""
    weights: Array | None = None
    """(features + 1, classes), f8: intercepts and weights of the site's own model."""


class Settling(SummingPart[SettlingMemory]):
    """Adds up how well personal models do, and makes the site's own; nothing of that one leaves."""

    name: ClassVar[str] = "settling"

    @answers(SumEvidence)
    def sum_evidence(self, ask: SumEvidence) -> Contribution:
        """Add how many rows each τ puts into their class when they are left out."""
        self._check_wanted()
        site: Any = self.site
        model = site.joint_model(1.0)
        own = evidence(self._ridges(model), site.codes)
        self.memory.evidence = Array.of(own)
        return self.contribute(ask, own)

    @answers(Settle)
    def settle(self, ask: Settle) -> SolutionTaken:
        """Choose τ by everybody's evidence and make the site's own model."""
        self._check_wanted()
        model: RidgeModel | None = self.site.handed.model
        if self.memory.evidence is None or model is None:
            raise ProtocolError("the site was asked to settle before it gave its evidence and had the joint model")
        self.site.sums.check_result(ask.evidence, SumEvidence)
        if ask.evidence.total.shape != (len(STRENGTHS) + 1,):
            raise ProtocolError(f"the evidence is not {len(STRENGTHS) + 1} numbers")
        strength = choose(self.memory.evidence.numpy(), ask.evidence.reals(SumEvidence))
        intercept, weights = self._ridges(model).weights(strength)
        added = np.vstack([intercept, weights / self._scale()[:, None]])
        self.memory.strength, self.memory.weights = strength, Array.of(model.weights + added)
        return SolutionTaken()

    def _check_wanted(self) -> None:
        if not self.settings.personal:
            raise ProtocolError("these terms have no personal models")

    def _scale(self) -> Floats:
        found = self.site.memory.solution.scale
        assert found is not None
        scale: Floats = found.numpy()
        return scale

    def _ridges(self, model: RidgeModel) -> OwnRidge:
        """Return the site's ridges around the joint model."""
        site: Any = self.site
        fit = site.memory.fit
        share = site.memory.solution.freedom / max(fit.rows(), 1.0)
        scores = model.decision_function(site.rows)
        return own_ridge(model.features(site.rows), self._scale(), scores, site.codes, share)

    def result(self) -> dict[str, Any]:
        """Return the weights of the site's own model, where there is one, and how strongly they were held back."""
        own = self.memory.weights
        return {} if own is None else settled(own.numpy(), self.memory.strength)

    def own_model(self) -> RidgeModel | None:
        """Return the site's own model; None before it has settled."""
        joint, own = self.site.handed.model, self.memory.weights
        return None if joint is None or own is None else joint.for_site({"weights": own.numpy()})

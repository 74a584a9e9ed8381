"""Shrunk: each site's model is drawn towards a joint one, by as much as held-out rows everywhere advise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.messages import Finished
from fedgeom.methods.iterative.setup import AgreeOnScale, agree, check_together
from fedgeom.methods.shrunk.core import (
    Descent,
    RankingEvidence,
    ShrunkModel,
    Terms,
    as_model,
    evidence_length,
    terms_length,
)
from fedgeom.methods.shrunk.settings import ShrunkSettings
from fedgeom.methods.shrunk.site import (
    ShrunkSite,
    SumRankingEvidence,
    SumTerms,
    TakeRankingEvidence,
    joint_model,
    ridges_of,
)
from fedgeom.protocols.cohort import join


@dataclass(frozen=True, kw_only=True)
class Shrunk(ShrunkSettings, Method):
    """For small sites whose patients differ: a logistic regression for each that leans on a joint one.

    Logistic regression with a joint direction, personal models around it, and a shared choice.
    Joint: w = argmin Σ_k ℓ_k(w) + α/2·‖w‖², ℓ_k with the site's own intercept. Personal: argmin ℓ_k(v) + λ/2·‖v − w‖².
    More than two classes: each against all others, in the same sums.
    How much to regularise (α) and how far to go one's own way (λ) is decided by cross-validation; the sites add up
    what they find in a secure sum, so that small sites profit from the others' evidence too.
    """

    name: ClassVar[str] = "shrunk"
    site: ClassVar[type[Site[Any]]] = ShrunkSite
    model_type: ClassVar[type[Model]] = ShrunkModel
    column_floors: ClassVar[bool] = True
    doubts: ClassVar[bool] = True

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse tables that do not fit together, or are too wide."""
        check_together(sites, self.classes)
        self.check_shape(self._count(sites), sites[0].shape[1])
        return []

    def _count(self, sites: Sequence[SiteData]) -> int:
        return len({str(name) for site in sites for name in site.classes.tolist()} | set(self.classes or ()))

    def plan(self, shape: Shape) -> Plan:
        """Agree on classes and scale, sum the terms of Newton's steps and the evidence, let the sites settle."""
        classes = yield AgreeOnScale(self)
        stack = self.stack(len(classes))
        last: Any = None
        for _ in range(self.n_rounds):
            last = yield Sum(SumTerms(last=last, agreed=bytes(32)), terms_length(stack, shape.columns))
        size = evidence_length(len(self.ridges), len(self.strengths()))
        ask = SumRankingEvidence(last=last, agreed=bytes(32))
        evidence = yield Sum(ask, stack[0] // len(self.ridges) * size)
        yield Ask(TakeRankingEvidence(evidence=evidence, agreed=bytes(32)), Finished())

    def conduct(self, sites: Coordinator) -> ShrunkModel:
        """Hold the conversation: join, agree on classes and scale, sum terms and evidence, let the sites settle."""
        cohort = join(sites, self)
        agreed = agree(cohort, self)
        self.check_shape(len(agreed.classes), agreed.columns)
        classes = len(agreed.classes)
        stack = self.stack(classes)
        state = Descent.start(*stack, agreed.columns)
        last = None
        for _ in range(self.n_rounds):
            last = cohort.sum_checked(SumTerms(last=last, agreed=agreed.hash))
            state.take(Terms.read(last.reals(SumTerms), stack, agreed.columns), ridges_of(self, stack))
        assert last is not None  # there is a round at least
        directions = state.good.numpy()
        strengths = self.strengths(stack[0] // len(self.ridges))
        size = (len(self.ridges), len(strengths))
        result = cohort.sum_checked(SumRankingEvidence(last=last, agreed=agreed.hash))
        sites.ask(TakeRankingEvidence(evidence=result, agreed=agreed.hash), of=cohort.left, expect=Finished)
        evidence = RankingEvidence.read_all(result.reals(SumRankingEvidence), *size)
        w, b, weights = joint_model(self, directions[:, -1], evidence)
        together = weights.mean(axis=0)
        best = np.unravel_index(int(np.argmax(together)), together.shape)
        quality = np.mean([one.quality[best] / max(one.weight, 1) for one in evidence])
        sites.metrics |= {
            "sites": len(cohort.left),
            "classes": classes,
            "numbers": b.size + w.size,
            "held-out AUC of the best candidate": round(float(quality), 4),
            "its ridge": float(self.ridges[best[0]]),
            "its strength": float(strengths[best[1]]),
        }
        return as_model(agreed.classes, w, b, agreed.centre, agreed.spread)

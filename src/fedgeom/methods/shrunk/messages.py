"""What travels: sums of gradients and Hessians, and of how well candidates did on held-out rows."""

from __future__ import annotations

from typing import ClassVar

from fedgeom.federation.messages import Key, Question
from fedgeom.methods.iterative.messages import Finished
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult


class SumTerms(SumQuestion, kind="shrunk.terms", reals=True, checked=True):
    """Ask for the masked loss, gradient and Hessian at a stack of joint directions."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the sum over sites of the loss, its gradient and its Hessian at the joint models, "
        "with and without each fold"
    )
    last: SumResult | None = None
    """The sum before this one, from which the joint models so far follow; None: they are zero."""
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`fedgeom.methods.iterative.setup`)."""


class SumRankingEvidence(SumQuestion, kind="shrunk.evidence", reals=True, checked=True):
    """Ask how well each candidate ranks the site's held-out rows, masked."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the mean AUC of each candidate on held-out rows, rows and rarer rows, mean "
        "intercepts; of more than two classes for each"
    )
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

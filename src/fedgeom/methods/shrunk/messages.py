"""What travels: sums of gradients and Hessians, and of how well candidates did on held-out rows."""

from __future__ import annotations

from typing import ClassVar

from fedgeom.federation.messages import Array, Key, Message, Question
from fedgeom.methods.iterative.messages import Finished
from fedgeom.protocols.secure_sum.messages import SumQuestion


class SumTerms(SumQuestion, frozen=True, kw_only=True):
    """Ask for the masked loss, gradient and Hessian at a stack of joint directions."""

    kind: ClassVar[str] = "shrunk.terms"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: the sum over sites of the loss, its gradient and its Hessian at the joint models, "
        "with and without each fold"
    )
    directions: Array
    """(ridges, folds + 1, columns), f8: the joint models so far."""
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`fedgeom.methods.iterative.agreement`)."""


class SumEvidence(SumQuestion, frozen=True, kw_only=True):
    """Ask how well each candidate ranks the site's held-out rows, masked."""

    kind: ClassVar[str] = "shrunk.evidence"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: the mean AUC of each candidate on held-out rows, rows and rarer rows, mean intercepts"
    )
    directions: Array
    """(ridges, folds + 1, columns), f8: the joint models so far."""
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`fedgeom.methods.iterative.agreement`)."""


class Settle(Question, frozen=True, kw_only=True):
    """Give a site the joint models and everybody's evidence; its own model stays there."""

    kind: ClassVar[str] = "shrunk.settle"
    answer: ClassVar[type[Message]] = Finished
    directions: Array
    """(ridges, folds + 1, columns), f8: the joint models so far."""
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`fedgeom.methods.iterative.agreement`)."""
    evidence: Array
    """(ridges·strengths + ridges + 2,), f8: everybody's evidence, added up."""

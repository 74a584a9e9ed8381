"""What travels beside the models: descriptions of the shape of a site's rows."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Array, Key, Message, Question
from fedgeom.methods.iterative.messages import Leaves, RoundNumber


class Description(Message, frozen=True, kw_only=True):
    """The shape of a site's rows; empty arrays stand for what was not asked for."""

    kind: ClassVar[str] = "topo.description"
    reveals: ClassVar[str] = "a summary of the shape of this site's rows"
    descriptor: Array
    """(48,), f8: φ_k, the numbers of Appendix B, of all rows."""
    by_class: Array
    """(48·classes,), f8: the 48 numbers of each class, one class after the other."""
    h0: Array
    """(pairs, 2), f8: the persistence diagram of H0 itself, for Wasserstein distances."""
    h1: Array
    """(pairs, 2), f8: that of H1."""
    merges: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """The share of the spanning tree's edges that join rows of different labels."""


class Describe(Question, frozen=True, kw_only=True):
    """Ask for the descriptor."""

    kind: ClassVar[str] = "topo.describe"
    answer: ClassVar[type[Message]] = Description
    answer_reveals: ClassVar[str] = (
        "the shape of this site's rows (where the terms say activations: of what an untrained network makes of them), "
        "not hidden from the coordinator: 48 numbers (Betti curves, entropies, amplitudes and counts of H0 and H1), "
        "for each class where the method asks for classes, with diagrams where it compares diagrams, with "
        "the share of tree edges between labels where it judges by that"
    )
    round: RoundNumber


class DescribeActivations(Question, frozen=True, kw_only=True):
    """Give a site the joint model and ask for the shape of what its body makes of the rows."""

    kind: ClassVar[str] = "topo.describe.activations"
    answer: ClassVar[type[Message]] = Description
    answer_reveals: ClassVar[str] = (
        "the shape of this site's activations, not hidden from the coordinator: 48 numbers as of rows, but of a "
        "function of the rows that the coordinator chose with the model it gave; a trained one tells classes apart, so "
        "that the shape tells which classes the site has and how well they are told apart"
    )
    round: RoundNumber
    given: Leaves
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`Agreed.hash`)."""


class DescribePrivately(Question, frozen=True, kw_only=True):
    """Ask for a differentially private descriptor."""

    kind: ClassVar[str] = "topo.describe.private"
    answer: ClassVar[type[Message]] = Description
    answer_reveals: ClassVar[str] = (
        "48 numbers on the shape of this site's rows with noise: (ε, δ)-differentially private for one row, with the "
        "ε and δ of the run's terms"
    )
    round: RoundNumber

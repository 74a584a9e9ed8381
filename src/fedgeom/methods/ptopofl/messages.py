"""What travels beside the models: descriptions of the shape of a site's rows."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Array, Message, Question
from fedgeom.methods.iterative.messages import RoundNumber


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
        "the shape of this site's rows, not hidden from the coordinator: 48 numbers (Betti curves, entropies, "
        "amplitudes and counts of H0 and H1), for each class where the method asks for classes, with diagrams where it "
        "compares diagrams, with the share of tree edges between labels where it judges by that"
    )
    round: RoundNumber


class DescribePrivately(Question, frozen=True, kw_only=True):
    """Ask for a differentially private descriptor."""

    kind: ClassVar[str] = "topo.describe.private"
    answer: ClassVar[type[Message]] = Description
    answer_reveals: ClassVar[str] = (
        "48 numbers on the shape of this site's rows with noise: (ε, δ)-differentially private for one row, with the "
        "ε and δ of the run's terms"
    )
    round: RoundNumber

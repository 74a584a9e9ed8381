"""Checks against a coordinator that lies: the tricks are played on a site that would fall for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

import fedgeom
from fedgeom.methods.moments.site import MomentsSite
from fedgeom.protocols.join.site import pack_names
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.secure_sum.site import SumPart
from fedgeom.testing import adversary
from fedgeom.testing.rehearsal import CheckContext


class Trusting(SumPart):
    """Admits what it is asked."""

    def admit(self, question: SumQuestion) -> None:
        self.joining.open_letters(question.ticket.members, question.ticket.letters)
        page = self.round(question.ticket.round)
        page.question_hash = question.ticket.question_hash
        page.participants_bytes = pack_names(question.ticket.participants)

    def remember_vector(self, number: int, values: Any) -> None:
        """Take note that there was one, and of no more."""
        self.round(number).vector_hash = b"some"


class TrustingSite(MomentsSite):
    def __init__(self, *given: Any):
        super().__init__(*given)
        self.sums = Trusting(self)


@dataclass(frozen=True, kw_only=True)
class Trusted(fedgeom.Moments):
    name: ClassVar[str] = "test trusted"
    site: ClassVar[type[Any]] = TrustingSite


def test_a_site_that_admits_any_sum_is_found() -> None:
    with pytest.raises(AssertionError, match=r"a coordinator that .* gets an answer"):
        adversary.refuses_tricks(CheckContext(Trusted()))


def test_the_tricks_cover_joining_summing_confirming_and_unmasking() -> None:
    assert adversary.refuses_tricks(CheckContext(fedgeom.Moments())) > 40

"""What travels when the model is tested: one masked vector of counts per site."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.protocols.secure_sum.messages import SumQuestion


class SumEvaluation(SumQuestion, frozen=True, kw_only=True):
    """Ask how often the model is right on the rows that a site kept aside."""

    kind: ClassVar[str] = "evaluation.sum"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many rows kept aside have which class and are given which, by the model, by the "
        "joint one and by models trained at each site alone (for two classes also by score), how many rows of each "
        "class were learnt from, and at how many sites; a count of 1 is one row, but not whose; where the terms keep "
        "rows aside by group, also how many groups there are and sums over groups of squares of rows and right answers"
    )
    classes: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    """How many classes the model has."""

"""What travels: one masked vector of class moments per site."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Names
from fedgeom.protocols.secure_sum.messages import SumQuestion


class SumMoments(SumQuestion, frozen=True, kw_only=True):
    """Ask for a site's masked class moments."""

    kind: ClassVar[str] = "moments.sum"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, and with noise where the terms have privacy: counts and means of each class (and "
        "covariances, with the gaussian rule), pooled, "
        "to the coordinator and the sites (of a class that one site alone has, that site's own, unless a policy leaves "
        "such classes out)"
    )
    fraction_bits: ClassVar[int] = 24
    checked: ClassVar[bool] = True
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None

"""What travels: one masked vector of class moments per site."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Names, Question
from fedgeom.protocols.model_delivery import ModelTaken
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.secure_sum.rules import GroupSum


class SumClassMoments(SumQuestion, kind="moments.sum", fraction_bits=24, reals=True, checked=True):
    """Ask for a site's masked class moments."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: counts and means of each class (and covariances, with the gaussian rule), pooled, "
        "to the coordinator and the sites (of a class that one site alone has, that site's own, unless a policy leaves "
        "such classes out)"
    )
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None


class SumGroupMoments(
    SumQuestion,
    kind="moments.group",
    fraction_bits=SumClassMoments.fraction_bits,
    reals=True,
    checked=True,
    in_groups=True,
):
    """Ask for a site's masked class moments, for the sum over its drawn group (`GroupMedian`)."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others of its drawn group: the group's counts and means of each class (and covariances, with "
        "the gaussian rule), to the coordinator and all sites, of each group apart"
    )
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None
    group: Annotated[int, msgspec.Meta(ge=0)]


class TakeGroups(Question, kind="moments.groups", answer=ModelTaken):
    """Give the sites the sums over the groups; each checks them and makes the model itself."""

    sums: Annotated[tuple[GroupSum, ...], msgspec.Meta(max_length=500)]

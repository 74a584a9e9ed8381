"""What travels: one masked vector of class moments per site."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Message, Names, Question
from fedgeom.protocols.model_delivery import ModelTaken
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.secure_sum.rules import GroupSum


class SumMoments(SumQuestion, frozen=True, kw_only=True):
    """Ask for a site's masked class moments."""

    kind: ClassVar[str] = "moments.sum"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: counts and means of each class (and covariances, with the gaussian rule), pooled, "
        "to the coordinator and the sites (of a class that one site alone has, that site's own, unless a policy leaves "
        "such classes out)"
    )
    fraction_bits: ClassVar[int] = 24
    reals: ClassVar[bool] = True
    checked: ClassVar[bool] = True
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None


class SumGroupMoments(SumQuestion, frozen=True, kw_only=True):
    """Ask for a site's masked class moments, for the sum over its drawn group (`GroupMedian`)."""

    kind: ClassVar[str] = "moments.group"
    answer_reveals: ClassVar[str] = (
        "masked; with all others of its drawn group: the group's counts and means of each class (and covariances, with "
        "the gaussian rule), to the coordinator and all sites, of each group apart"
    )
    fraction_bits: ClassVar[int] = SumMoments.fraction_bits
    reals: ClassVar[bool] = True
    checked: ClassVar[bool] = True
    in_groups: ClassVar[bool] = True
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None
    group: Annotated[int, msgspec.Meta(ge=0)]


class TakeGroups(Question, frozen=True, kw_only=True):
    """Give the sites the sums over the groups; each checks them and makes the model itself."""

    kind: ClassVar[str] = "moments.groups"
    answer: ClassVar[type[Message]] = ModelTaken
    sums: Annotated[tuple[GroupSum, ...], msgspec.Meta(max_length=500)]

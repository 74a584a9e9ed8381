"""What travels in an update: the features and sums from before, and the masked sum of the change."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Array, Key, Message, Names, Question
from fedgeom.methods.ridge.messages import MOST_PARTS, SolutionTaken
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult


class TakeBase(Question, frozen=True, kw_only=True):
    """Give a site what the features were made from, and hashes of the sums; the terms say what stands for them."""

    kind: ClassVar[str] = "ridge-update.base"
    answer: ClassVar[type[Message]] = SolutionTaken
    made: Annotated[bytes, msgspec.Meta(max_length=2**26)]
    hashes: Annotated[tuple[Key, ...], msgspec.Meta(max_length=MOST_PARTS)]


class SumChange(SumQuestion, frozen=True, kw_only=True):
    """Ask how many rows of each class are added and how many are taken out, masked."""

    kind: ClassVar[str] = "ridge-update.counts"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows of each class are added and taken out"
    )
    checked: ClassVar[bool] = True
    classes: Names


class SumChangedGram(SumQuestion, frozen=True, kw_only=True):
    """Ask for a part of the masked products of features: those of rows added, less those of rows taken out."""

    kind: ClassVar[str] = "ridge-update.gram"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: by how much the sums of products of features change. It is the sum "
        "over the changed rows alone, which only the other sites' changes hide"
    )
    checked: ClassVar[bool] = True
    counts: SumResult
    """How many rows change."""
    part: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]


class CheckUpdate(Question, frozen=True, kw_only=True):
    """Show the sites a part of the sum from before and of the change; after the last they have the new model."""

    kind: ClassVar[str] = "ridge-update.check"
    answer: ClassVar[type[Message]] = SolutionTaken
    number: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]
    before: Array
    """(numbers,), f8"""
    result: SumResult

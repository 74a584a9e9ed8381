"""What travels: masked sums of moments, patches, clusters and the Gram matrix, and the solution that sites check."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Array, Message, Names, Question
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult

MOST_PARTS = 2048


class SumColumns(SumQuestion, frozen=True, kw_only=True):
    """Ask for masked class counts, and sums and squares of columns."""

    kind: ClassVar[str] = "ridge.columns"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows each class has, and each column's mean and variance"
    )
    checked: ClassVar[bool] = True
    classes: Names


class SumPatches(SumQuestion, frozen=True, kw_only=True):
    """Ask for the masked moments of patches of images."""

    kind: ClassVar[str] = "ridge.patches"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the mean and covariance of small patches of all images"
    )
    checked: ClassVar[bool] = True
    last: SumResult
    """The sum before this one, from which the patches' contrast follows."""


class CountPatches(SumQuestion, frozen=True, kw_only=True):
    """Ask, masked, how many images have a patch near each filter, and whether there are any."""

    kind: ClassVar[str] = "ridge.patch-counts"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many images and sites have patches like each filter"
    )
    checked: ClassVar[bool] = True
    last: SumResult


class SumClusters(SumQuestion, frozen=True, kw_only=True):
    """Ask for the masked sums of the patches near each filter that enough images and sites have."""

    kind: ClassVar[str] = "ridge.clusters"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the filters, which are mean patches of many images"
    )
    checked: ClassVar[bool] = True
    last: SumResult


class SumGram(SumQuestion, frozen=True, kw_only=True):
    """Ask for a part of the masked products of features with each other and with the classes."""

    kind: ClassVar[str] = "ridge.gram"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: sums over all rows of products of two features, and of each feature in "
        "each class. A site with fewer rows than features is hidden by the others' rows alone"
    )
    checked: ClassVar[bool] = True
    last: SumResult
    """The last sum that the features follow from."""
    classes: Names
    part: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]


class SumBounded(SumQuestion, frozen=True, kw_only=True):
    """Ask for counts and sums of each class and products of columns, of shortened rows and with noise, masked."""

    kind: ClassVar[str] = "ridge.bounded"
    answer_reveals: ClassVar[str] = (
        "masked; with all others and with noise, to everybody: how many rows each class has, their sums, and sums of "
        "products of two columns, no row longer than the terms say"
    )
    checked: ClassVar[bool] = True
    classes: Names


class SumSurprise(SumQuestion, frozen=True, kw_only=True):
    """Ask how well probabilities at each temperature fit, masked."""

    kind: ClassVar[str] = "ridge.surprise"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how well the model's probabilities fit all rows, at each of some "
        "temperatures"
    )
    checked: ClassVar[bool] = True


class SumEvidence(SumQuestion, frozen=True, kw_only=True):
    """Ask how many rows personal models put into their class, for each strength of holding them back, masked."""

    kind: ClassVar[str] = "ridge.evidence"
    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows of all sites personal models put into their class"
    )
    checked: ClassVar[bool] = True


class SolutionTaken(Message, frozen=True, kw_only=True):
    """A site has the solution, or has checked a part of it."""

    kind: ClassVar[str] = "ridge.taken"
    reveals: ClassVar[str] = "nothing: a receipt"
    harmless: ClassVar[bool] = True


class TakeSolution(Question, frozen=True, kw_only=True):
    """Give the sites the solution of the ridge's equations, which they check with the sums that follow."""

    kind: ClassVar[str] = "ridge.solution"
    answer: ClassVar[type[Message]] = SolutionTaken
    weights: Array
    """(features + 1, classes), f8"""
    alpha: Annotated[float, msgspec.Meta(gt=0)]
    freedom: Annotated[float, msgspec.Meta(ge=0)]


class CheckPart(Question, frozen=True, kw_only=True):
    """Show the sites a part of the sum; after the last they know whether the solution is that of the sums."""

    kind: ClassVar[str] = "ridge.check"
    answer: ClassVar[type[Message]] = SolutionTaken
    number: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]
    result: SumResult


class Settle(Question, frozen=True, kw_only=True):
    """Give a site everybody's evidence on personal models; its own model stays there."""

    kind: ClassVar[str] = "ridge.settle"
    answer: ClassVar[type[Message]] = SolutionTaken
    evidence: SumResult

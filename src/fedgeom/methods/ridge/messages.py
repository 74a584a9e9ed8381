"""What travels: masked sums of moments, patches, clusters and the Gram matrix, and the solution that sites check."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Array, Message, Names, Question
from fedgeom.protocols.secure_sum.messages import BY_GROUP, SumQuestion, SumResult

MOST_PARTS = 2048


class SumRidgeColumns(SumQuestion, kind="ridge.columns", checked=True, in_groups=True, words_per_number=2):
    """Ask for masked class counts, and sums and squares of columns."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows each class has, and each column's mean and variance"
    ) + BY_GROUP
    classes: Names


class CountBinnedRows(SumQuestion, kind="ridge.cells", checked=True, decides_floors=True):
    """Ask, masked, how many rows of each class lie in each cell of binned columns, up to the policies' floor."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows of each class, up to the policies' floor, and how many "
        "sites have columns in each cell of bins"
    )
    last: SumResult
    """The sum before this one, from which the bins follow."""


class SumPatches(SumQuestion, kind="ridge.patches", checked=True):
    """Ask for the masked moments of patches of images."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the mean and covariance of small patches of all images"
    )
    last: SumResult
    """The sum before this one, from which the patches' contrast follows."""


class CountPatches(SumQuestion, kind="ridge.patch-counts", checked=True):
    """Ask, masked, how many images have a patch near each filter, and whether there are any."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many images and sites have patches like each filter"
    )
    last: SumResult


class SumClusters(SumQuestion, kind="ridge.clusters", checked=True):
    """Ask for the masked sums of the patches near each filter that enough images and sites have."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the filters, which are mean patches of many images"
    )
    last: SumResult


class SumGram(SumQuestion, kind="ridge.gram", checked=True, in_groups=True):
    """Ask for a part of the masked products of features with each other and with the classes."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: sums over all rows of products of two features, and of each feature in "
        "each class. A site with fewer rows than features is hidden by the others' rows alone"
    ) + BY_GROUP
    last: SumResult
    """The last sum that the features follow from."""
    classes: Names
    part: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]


class SumBounded(SumQuestion, kind="ridge.bounded", checked=True):
    """Ask for counts and sums of each class and products of columns, of shortened rows and with noise, masked."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others and with noise, to everybody: how many rows each class has, their sums, and sums of "
        "products of two columns, no row longer than the terms say"
    )
    classes: Names


class SumCalibration(SumQuestion, kind="ridge.calibration", checked=True, in_groups=True, rounded=True):
    """Ask how well probabilities at each temperature fit, masked."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how well the model's probabilities fit all rows, at each of some "
        "temperatures; where policies have floors, with means of min_rows rows in their place"
    ) + BY_GROUP


class SumPersonalEvidence(SumQuestion, kind="ridge.evidence", checked=True, in_groups=True, rounded=True):
    """Ask how many rows personal models put into their class, for each strength of holding them back, masked."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows of all sites personal models put into their class; where "
        "policies have floors, of groups of min_rows rows together"
    ) + BY_GROUP


class SolutionTaken(Message, kind="ridge.taken", harmless=True):
    """A site has the solution, or has checked a part of it."""

    reveals: ClassVar[str] = "nothing: a receipt"


class TakeSolution(Question, kind="ridge.solution", answer=SolutionTaken):
    """Give the sites the solution of the ridge's equations, which they check with the sums that follow."""

    weights: Array
    """(features + 1, classes), f8"""
    alpha: Annotated[float, msgspec.Meta(gt=0)]
    freedom: Annotated[float, msgspec.Meta(ge=0)]


class CheckPart(Question, kind="ridge.check", answer=SolutionTaken):
    """Show the sites a part of the sum; after the last they know whether the solution is that of the sums."""

    number: Annotated[int, msgspec.Meta(ge=0, lt=MOST_PARTS)]
    result: SumResult


class TakePersonalEvidence(Question, kind="ridge.take-evidence", answer=SolutionTaken):
    """Give a site everybody's evidence on personal models; its own model stays there."""

    evidence: SumResult

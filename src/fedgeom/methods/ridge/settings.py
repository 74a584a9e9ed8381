"""The settings of Ridge, which both halves know, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from fedgeom.errors import InputError
from fedgeom.federation.privacy import PrivacyOrTable
from fedgeom.federation.settings import POSITIVE, Between, ClassNames, Settings
from fedgeom.methods.aggregation import GroupedSums
from fedgeom.methods.ridge.core import cuts
from fedgeom.methods.ridge.features import Binned, FeatureMap, Fourier, LinearFeatures, total_width
from fedgeom.methods.ridge.image_features import Conv

MOST_SENT = 50_000_000
"""So many numbers all sites together add up where features are chosen; more sites take fewer."""
FEWEST_FOURIER = 100
"""Fewer Fourier features than this are not worth their sums."""
MOST_CLASSES = 1000
"""As many sums are planned as this many classes need, where the terms do not name the classes."""
FOLDS = 2
LINEAR = LinearFeatures()
USUAL: dict[str, Any] = {
    "features": (LINEAR, Fourier()),
    "rule": "discriminant",
    "balanced": True,
    "alpha": "folds",
}
"""What is taken of settings that are not given. Discriminants, since with many classes the largest score loses those
between others; and folds, since generalised cross-validation takes rows for equals, which balanced ones are not: it
chose too small a λ."""
PLAIN: dict[str, Any] = {"features": LINEAR, "rule": "ridge", "balanced": False, "alpha": "gcv"}
"""What is taken of them beside features that are given, and beside settings that go with one sum over rows alike."""


@dataclass(frozen=True, kw_only=True)
class RidgeSettings(GroupedSums, Settings):
    """Which features, how strongly they are held back, and how sums are divided."""

    features: tuple[FeatureMap, ...] | FeatureMap | Literal["auto"] = "auto"
    """"linear", "fourier", "conv" (learnt filters), "random-conv", "binned", a table with such a name and settings, or
    a list of these, side by side. "auto": linear and Fourier features, with discriminants of balanced classes and λ by
    folds where these are not given either; linear ones beside ``shape``, ``personal``, ``updatable``, ``privacy`` or
    ``GroupMedian``."""
    shape: tuple[Annotated[int, Between(1, 4096)], ...] = ()
    """Height, width and channels of images whose cells are the columns; for convolutions."""
    alpha: Annotated[float, POSITIVE] | Literal["gcv", "folds", "auto"] = "auto"
    """λ, on features scaled to unit mean square: a number; "gcv": chosen by generalised cross-validation from the same
    sums; "folds": by sums over two folds. "auto": "gcv" beside features that are given."""
    balanced: bool | Literal["auto"] = "auto"
    """Whether each class counts the same in all, however many rows it has. "auto": not beside features that are
    given."""
    rule: Literal["ridge", "discriminant", "auto"] = "auto"
    """How scores decide: the largest "ridge" score, or linear "discriminant" analysis of the features with the ridge's
    penalty, from the same sums. The latter is better where there are many classes, or large and small ones. "auto":
    "ridge" beside features that are given."""
    personal: bool = False
    """Whether each site also makes a model of its own around the joint one; how near it stays is chosen by rows that a
    fit has not seen, the site's own and, in one small sum, everybody's."""
    updatable: bool = False
    """Whether the sums are kept with the run, so that rows can be added or taken out later (``run.update``)."""
    classes: ClassNames = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    max_features: Annotated[int, Between(1, 32_768)] = 8192
    """The most features: their sums have D·(D+1)/2 numbers."""
    max_sum_length: Annotated[int, Between(100, 32 * 2**20)] = 8_000_000
    """The most numbers, of 8 bytes, in one secure sum; larger ones are divided."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result; with privacy, the fewest over which sums are unmasked."""
    privacy: PrivacyOrTable = None
    """DP(epsilon=…, delta=…, clip=…): differential privacy of single rows, of which none counts for more than one of
    length ``clip``; for linear features, on columns as they are. Needs ``classes``."""

    private_units: ClassVar[tuple[str, ...]] = ("row",)

    def __post_init__(self) -> None:
        summed = getattr(self.aggregation, "name", self.aggregation) == "mean"
        simple = self.personal or self.updatable or self.privacy is not None or bool(self.shape) or not summed
        taken = PLAIN if simple or not isinstance(self.features, str) or self.features != "auto" else USUAL
        for name, value in taken.items():
            if isinstance(given := getattr(self, name), str) and given == "auto":
                object.__setattr__(self, name, value)
        super().__post_init__()
        if not self.maps:
            raise InputError("features=() given; wanted at least one feature map")
        if self.shape and len(self.shape) != 3:
            raise InputError(f"shape={self.shape} given; wanted height, width and channels, such as (28, 28, 1)")
        images = [one.name for one in self.maps if one.images]
        if images and not self.shape:
            raise InputError(
                f"features={images[0]!r} looks at images, but no shape was given; wanted height, width and channels, "
                "such as shape=(28, 28, 1)"
            )
        if sum(isinstance(one, Conv) for one in self.maps) > 1:
            raise InputError("two feature maps 'conv' given; wanted one at most: take more filters instead")
        if len({(one.name, str(one.plain())) for one in self.maps}) < len(self.maps):
            raise InputError("the same feature map was given twice; the seed would make the same features")
        if self.personal and self.rule != "ridge":
            raise InputError(
                f'personal=True given with rule={self.rule!r}; wanted rule="ridge": a site fits what the joint ridge '
                "leaves over"
            )
        if self.updatable and (self.balanced or self.alpha == "folds"):
            raise InputError(
                f"updatable=True given with balanced={self.balanced} and alpha={self.alpha!r}; wanted one "
                'sum in which rows count alike: balanced=False, and alpha="gcv" or a number'
            )
        learnt = [
            one.name for one in self.maps if one.name in ("conv", "binned")
        ]  # whose floors are over all sites
        if self.group_draw is not None and (self.updatable or self.alpha == "folds" or learnt):
            raise InputError(
                f"aggregation=GroupMedian(…) given with updatable={self.updatable}, alpha={self.alpha!r} and features "
                f"{[one.name for one in self.maps]}; groups are compared in one sum of given features: wanted "
                'updatable=False, alpha="gcv" or a number, and neither "conv" nor "binned"'
            )
        row = self.most_features + self.most_classes + 1
        if self.max_sum_length < row:
            raise InputError(
                f"max_sum_length={self.max_sum_length:,} given; wanted {row:,} at least, a row of the sums of "
                f"{self.most_features:,} features (max_features, where their number is not said): "
                "allow longer sums or take fewer features"
            )
        found = total_width(self.maps, None, self.shape)
        if found is not None and found > self.max_features:
            raise InputError(
                f"{found:,} features given; wanted max_features = {self.max_features:,} at most: take fewer, or raise "
                "max_features"
            )

    def for_rows(self, rows: int, columns: int, least: float, sites: int = 1) -> tuple[Self, str]:
        """Return these settings with fewer of the usual features where there is no room for them, and why.

        ``least`` is how many rows a policy wants for each feature. Rows that are too few for the columns alone, when
        they are dealt to folds, are not dealt.
        """
        if self.features != USUAL["features"]:
            return self, ""
        usual = Fourier.n_components
        if columns + usual > self.max_features >= usual:
            why = f"{columns:,} columns are too many for sums of their products, so that features are made of them"
            return replace(self, features=Fourier()), why
        dealt = rows / self.folds  # each fold is a sum of its own
        limits = [(self.max_features, f"max_features = {self.max_features:,}")]
        if columns < usual:  # the products of more are most of what is sent, with or without Fourier features
            limits.append((math.isqrt(2 * MOST_SENT // (sites * self.folds)), f"sums over {sites:,} sites"))
        if least:
            limits.append((int(dealt / least), f"{rows:,} rows (min_rows_per_feature = {least:g} in the policy)"))
        most, cause = min(limits)
        room = most - columns
        why = f"{cause} leave room for {most:,} features"
        if room >= usual:
            return self, ""
        if room >= FEWEST_FOURIER:
            return replace(self, features=(LINEAR, Fourier(n_components=room // 10 * 10))), why
        fitted = replace(self, features=LINEAR)
        unfolded = self.alpha == "folds" and dealt < least * columns
        return (replace(fitted, alpha="gcv") if unfolded else fitted), why

    @property
    def maps(self) -> tuple[FeatureMap, ...]:
        """The feature maps, one or several."""
        assert self.features != "auto"  # which is settled when the settings are made
        return self.features if isinstance(self.features, tuple) else (self.features,)

    @property
    def conv(self) -> Conv | None:
        """The map whose filters are learnt, where there is one."""
        return next((one for one in self.maps if isinstance(one, Conv)), None)

    @property
    def binned(self) -> Binned | None:
        """The map whose cells of bins have floors, where there is one."""
        return next((one for one in self.maps if isinstance(one, Binned)), None)

    def against_floors(self) -> str:
        """Return that bins of two kinds cut columns into pieces that nobody counts, or that changes fill few bins."""
        if self.updatable and self.binned is not None:
            return (
                'features has "binned" with updatable=True, and the sums of a change would show the few rows by which '
                'a bin differs: take "linear" or "fourier" features, updatable=False, or privacy=DP(…)'
            )
        if sum(isinstance(one, Binned) for one in self.maps) < 2:
            return ""
        return 'features has "binned" twice, and where bins of both overlap may be single rows: take one of them'

    @property
    def rounds(self) -> int:
        """How many steps of an iteration there are: those of learning filters (the policy's ``max_rounds``)."""
        return self.conv.n_rounds if self.conv else 1

    @property
    def folds(self) -> int:
        """Into how many folds rows are dealt; 1: none."""
        return FOLDS if self.alpha == "folds" else 1

    @property
    def most_features(self) -> int:
        """How many features there are, or may be where that depends on the columns (the policy's ``max_features``)."""
        return total_width(self.maps, None, self.shape) or self.max_features

    @property
    def most_classes(self) -> int:
        """How many classes there are, or may be where the terms do not name them."""
        return len(self.classes) if self.classes else MOST_CLASSES

    @property
    def planned_parts(self) -> int:
        """How many sums are planned for the Gram matrix: as many as the most features and classes need."""
        return self.folds * len(cuts(self.most_features, self.most_classes, self.max_sum_length))

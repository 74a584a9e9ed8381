"""The settings of Ridge: what they may be, how they travel, and what follows from them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import fedgeom
from fedgeom import Ridge
from fedgeom.errors import InputError
from fedgeom.federation.messages import decode, encode
from fedgeom.methods.aggregation import GroupMedian
from fedgeom.methods.ridge.features import Fourier, LinearFeatures
from fedgeom.methods.ridge.image_features import Conv
from fedgeom.protocols.join.messages import Hello


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": "cubic"}, "features='cubic' is unknown; there are: linear, fourier, binned"),
        ({"features": []}, "at least one feature map"),
        ({"features": {"name": "fourier", "many": 3}}, "has no setting 'many'"),
        ({"features": {"name": "fourier", "n_components": 0}}, "n_components=0"),
        ({"features": "conv"}, r"looks at images, but no shape was given.*shape=\(28, 28, 1\)"),
        ({"features": "conv", "shape": (28, 28)}, "wanted height, width and channels"),
        ({"features": ["conv", {"name": "conv", "n_filters": 3}], "shape": (9, 9, 1)}, "wanted one at most"),
        ({"features": ["fourier", "fourier"]}, "given twice"),
        (
            {"features": {"name": "fourier", "n_components": 9000}},
            "9,000 features given; wanted max_features = 8,192",
        ),
        ({"max_sum_length": 1000}, "max_sum_length=1,000 given; wanted 9,193 at least"),
        ({"alpha": 0}, "alpha=0 given; wanted a number above 0"),
        ({"alpha": "loo"}, "alpha='loo'"),
        ({"shape": (28, 0, 1)}, "shape="),
        ({"classes": ("a",)}, "2 of them or more"),
        ({"min_sites": 0}, "min_sites=0"),
    ],
)
def test_wrong_settings_say_what_is_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Ridge(**changes)


@pytest.mark.parametrize(
    "method",
    [
        Ridge(features="linear"),
        Ridge(features="conv", shape=(28, 28, 1)),  # type: ignore[arg-type]
        Ridge(features=["linear", Fourier(n_components=7)], alpha=3, balanced=True, classes=("a", "b")),  # type: ignore[arg-type]
    ],
)
def test_terms_travel_and_come_back(method: Ridge) -> None:
    assert Ridge.from_terms(method.terms()) == method
    heard = decode(encode(Hello(rounds=1, terms=method.terms())), Hello)
    assert Ridge.from_terms(heard.terms) == method


def test_maps_are_given_by_name_by_table_or_as_they_are() -> None:
    assert Ridge(features="linear").maps == (LinearFeatures(),)  # type: ignore[arg-type]
    listed = Ridge(features=["linear", {"name": "fourier", "n_components": 5}])  # type: ignore[arg-type]
    assert listed.maps == (LinearFeatures(), Fourier(n_components=5))
    assert Ridge(features=Conv(n_rounds=4), shape=(28, 28, 1)).rounds == 4
    assert Ridge(features="linear").rounds == 1


def test_as_many_sums_are_planned_as_the_most_features_need() -> None:
    """D·(D+1)/2 numbers, divided by the largest part; with folds twice as many."""
    two = Ridge(features=Fourier(n_components=1999), classes=("a", "b"), max_sum_length=1_100_000)
    assert two.most_features == 1999
    assert two.planned_parts == 2  # 2,001,000 + 4,000 numbers
    assert (
        Ridge(
            features=Fourier(n_components=1999), classes=("a", "b"), max_sum_length=1_100_000, alpha="folds"
        ).planned_parts
        == 4
    )
    assert Ridge(features="linear").most_features == 8192
    assert Ridge(features="linear").planned_parts == 6  # 33.6 million and 8.2 million numbers


def test_ridge_alone_has_the_settings_of_the_automatic_choice_and_linear_is_the_plain_form() -> None:
    usual = Ridge()
    assert usual.maps == (LinearFeatures(), Fourier())
    assert (usual.rule, usual.balanced, usual.alpha) == ("discriminant", True, "folds")
    plain = Ridge(features="linear")  # type: ignore[arg-type]
    assert plain.maps == (LinearFeatures(),)
    assert (plain.rule, plain.balanced, plain.alpha) == ("ridge", False, "gcv")
    assert Ridge(alpha=3.0) == dataclasses.replace(usual, alpha=3.0)
    assert Ridge(features="linear", rule="discriminant").alpha == "gcv"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"personal": True},
        {"updatable": True},
        {"privacy": fedgeom.DP(epsilon=1.0, delta=1e-5, clip=1.0), "classes": ("a", "b")},
        {"aggregation": GroupMedian(n_groups=3)},
        {"shape": (4, 4, 1)},
    ],
)
def test_what_needs_one_sum_over_rows_alike_has_linear_features(settings: dict[str, Any]) -> None:
    assert Ridge(**settings) == Ridge(**settings, features="linear", rule="ridge", balanced=False, alpha="gcv")

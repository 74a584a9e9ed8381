"""Which of Moments and Ridge suits shared names, by the tables and by what a file says."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.deploy.method_selection import SuitableMethod, for_shared_names, with_few_features
from fedgeom.federation.policy import Policy, StrictPolicy


def sites(rows: int, columns: int) -> list[SiteData]:
    """Return two sites with so many rows of the median class in all, fewer of a rare one, more of a common one."""
    y = np.repeat(["rare", "median", "common"], [2, rows // 2, rows])
    X = np.random.default_rng(0).normal(size=(len(y), columns))
    return [SiteData("a", X, y), SiteData("b", X, y)]


BOTH = {"rule": "discriminant", "balanced": True, "alpha": "folds", "features": ["linear", "fourier"]}


@pytest.mark.parametrize("columns", [3, 500, 7192])
def test_a_table_is_for_ridge_over_columns_and_fourier_features(columns: int) -> None:
    found = for_shared_names(sites(60, columns), {}, in_disc=False)
    assert (found.method, found.settings, found.reason) == ("ridge", BOTH, "")
    assert (
        fedgeom.Ridge(**found.settings).most_features == fedgeom.Ridge().max_features
    )  # it is a setting that holds


def test_points_of_the_disc_are_for_moments_in_the_ball() -> None:
    found = for_shared_names(sites(4, 2), {}, in_disc=True)
    assert (found.method, found.settings, found.reason) == ("moments", {}, "")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [({"space": "ball"}, "moments"), ({"features": "linear"}, "ridge"), ({"min_sites": 3}, "ridge")],
)
def test_settings_that_one_method_knows_mean_that_one(said: dict[str, object], wanted: str) -> None:
    assert for_shared_names(sites(10, 20), said, in_disc=False).method == wanted


def test_more_columns_than_ridge_takes_become_fourier_features() -> None:
    found = for_shared_names(sites(10, 9000), {}, in_disc=False)
    assert found.settings == {"rule": "discriminant", "balanced": True, "alpha": "folds", "features": "fourier"}
    assert "9,000 columns are too many for sums of their products" in found.reason


def test_rows_that_are_prepared_first_may_have_any_number_of_columns() -> None:
    found = for_shared_names(sites(10, 9000), {}, in_disc=False, prepared=True)
    assert (found.method, found.settings, found.reason) == ("ridge", BOTH, "")


def test_a_policy_that_wants_rows_for_each_feature_gets_fewer_features():
    usual = SuitableMethod("ridge", {"features": ["linear", "fourier"], "alpha": "folds"})
    strict = StrictPolicy()
    assert with_few_features(usual, Policy(), 100, 20) == usual
    assert with_few_features(usual, strict, 5000, 20) == usual
    fewer = with_few_features(usual, strict, 400, 20)
    assert fewer.settings["features"] == ["linear", {"name": "fourier", "n_components": 180}]
    assert "min_rows_per_feature = 1" in fewer.reason
    assert with_few_features(usual, strict, 100, 20).settings == {"features": "linear", "alpha": "folds"}
    assert with_few_features(usual, strict, 30, 20).settings == {
        "features": "linear"
    }  # 15 a fold would be too few

"""Which of Moments and Ridge suits shared names: by rows for each column, and by what a file says."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.deploy.shared_names import ROWS_PER_COLUMN, for_shared_names


def sites(rows: int, columns: int) -> list[SiteData]:
    """Return two sites with so many rows of the median class in all, fewer of a rare one, more of a common one."""
    y = np.repeat(["rare", "median", "common"], [2, rows // 2, rows])
    X = np.random.default_rng(0).normal(size=(len(y), columns))
    return [SiteData("a", X, y), SiteData("b", X, y)]


@pytest.mark.parametrize(
    ("rows", "columns", "wanted"), [(60, 20, "moments"), (58, 20, "ridge"), (100, 2000, "ridge")]
)
def test_rows_of_the_median_class_for_each_column_decide(rows: int, columns: int, wanted: str) -> None:
    found = for_shared_names(sites(rows, columns), {}, in_disc=False)
    assert found.method == wanted == ("moments" if rows >= ROWS_PER_COLUMN * columns else "ridge")
    assert f"the median class has {rows} rows" in found.reason
    assert found.settings == ({"space": "euclidean"} if wanted == "moments" else {"balanced": True})


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
    assert found.settings == {"balanced": True, "features": "fourier"}


def test_rows_that_are_prepared_first_are_for_moments() -> None:
    found = for_shared_names(sites(10, 500), {}, in_disc=False, prepared=True)
    assert (found.method, found.settings, found.reason) == ("moments", {"space": "euclidean"}, "")

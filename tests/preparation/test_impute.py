"""Gaps, filled in as scikit-learn fills in those of pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.impute import SimpleImputer

from fedgeom.data.sites import SiteData
from fedgeom.preparation import Impute, OneHot, fit_plain
from tests.preparation.raw import clinical, pooled


def numbers(sites):
    return [SiteData(s.name, s.X[:, :3], s.y, columns=s.columns[:3]) for s in sites]


@pytest.mark.parametrize(("strategy", "tolerance"), [("mean", 1e-12), ("median", 4e-5)])
@pytest.mark.parametrize("indicators", [True, False])
def test_values_and_indicators_are_those_of_pooled_rows(strategy, tolerance, indicators):
    sites = numbers(clinical())
    made = fit_plain([Impute(strategy=strategy, add_indicator=indicators)], sites)
    wanted = SimpleImputer(strategy=strategy, add_indicator=indicators).fit_transform(pooled(sites))
    np.testing.assert_allclose(pooled([made.transform(s) for s in sites]), wanted, rtol=tolerance)


def test_a_median_is_exact_with_all_bits_where_float32_holds_the_numbers():
    rng = np.random.default_rng(0)
    sites = [
        SiteData(f"s{i}", rng.integers(-50, 50, (21 + i, 2)).astype(float), np.zeros(21 + i)) for i in range(3)
    ]
    made = fit_plain([Impute(bits=32)], sites)
    np.testing.assert_array_equal(made.fits[0].get("value"), np.median(pooled(sites), axis=0))


def test_the_most_frequent_number_is_found():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([1.0, 2.0, 7.0], 90, p=[0.2, 0.5, 0.3]), rng.choice([0.25, -3.5, 1e6], 90)])
    X[::9] = np.nan
    sites = [SiteData(f"s{i}", X[i::3], np.zeros(30)) for i in range(3)]
    made = fit_plain([Impute(strategy="most-frequent", add_indicator=False)], sites)
    wanted = SimpleImputer(strategy="most_frequent").fit(X).statistics_
    np.testing.assert_array_equal(made.fits[0].get("value"), wanted)


def test_a_column_with_gaps_everywhere_is_left_out_and_so_is_one_that_policies_find_too_rare():
    sites = numbers(clinical())
    for at, site in enumerate(sites):
        site.table[:, 0] = np.nan
        if at:
            site.table[:, 1] = np.nan
    assert fit_plain([Impute(add_indicator=False)], sites).columns.names == ("crp", "bmi")
    assert fit_plain([Impute(add_indicator=False)], sites, floors=(2, 10)).columns.names == ("bmi",)


def test_columns_that_a_site_lacks_are_left_out_or_filled_in():
    sites = numbers(clinical())
    sites[2] = SiteData("s2", sites[2].X[:, [2, 0]], sites[2].y, columns=("bmi", "age"))
    assert fit_plain([Impute(add_indicator=False)], sites).columns.names == ("age", "bmi")
    made = fit_plain([Impute(add_indicator=False, absent="union")], sites)
    assert made.columns.names == ("age", "crp", "bmi")
    filled = made.transform(sites[2]).X[:, 1]
    np.testing.assert_allclose(filled, made.fits[0].get("value")[1])


def test_float32_stays_float32():
    sites = [SiteData(s.name, s.X.astype(np.float32), s.y) for s in numbers(clinical())]
    assert fit_plain([Impute()], sites).transform(sites[0]).table.dtype == np.float32


def test_after_categories_only_numbers_have_gaps():
    sites = clinical()
    made = fit_plain([OneHot(min_rows=1), Impute()], sites)
    assert (
        sum(name.endswith("is missing") for name in made.columns.names) == 4
    )  # three columns, and the ward's own
    assert np.isfinite(pooled([made.transform(s) for s in sites])).all()


@pytest.mark.parametrize("indicators", [True, False])
def test_the_size_of_the_rows_is_known_before_they_are_made(indicators):
    sites = numbers(clinical())
    made, step = fit_plain([Impute(add_indicator=indicators)], sites), Impute(add_indicator=indicators)
    rows = made.transform(sites[0])
    assert step.output_bytes(made.grounds[0], made.fits[0], len(rows), 0) == rows.X.nbytes

"""Which of Moments and Ridge suits shared names, by the tables and by what a file says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.deploy.federation_check import check_federation
from fedgeom.deploy.method_selection import for_shared_names
from fedgeom.engines.check import fit_to_rows
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.methods.ridge.features import Fourier, LinearFeatures
from fedgeom.preparation.impute import Impute
from fedgeom.preparation.one_hot import OneHot


def sites(rows: int, columns: int) -> list[SiteData]:
    """Return two sites with so many rows of the median class in all, fewer of a rare one, more of a common one."""
    y = np.repeat(["rare", "median", "common"], [2, rows // 2, rows])
    X = np.random.default_rng(0).normal(size=(len(y), columns))
    return [SiteData("a", X, y), SiteData("b", X, y)]


USUAL = fedgeom.Ridge()


def test_shared_names_are_for_ridge_and_points_of_the_disc_for_moments() -> None:
    found = for_shared_names({}, in_disc=False)
    assert (found.method, found.settings, found.reason) == ("ridge", {}, "")
    found = for_shared_names({}, in_disc=True)
    assert (found.method, found.settings, found.reason) == ("moments", {}, "")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [({"space": "ball"}, "moments"), ({"features": "linear"}, "ridge"), ({"min_sites": 3}, "ridge")],
)
def test_settings_that_one_method_knows_mean_that_one(said: dict[str, object], wanted: str) -> None:
    assert for_shared_names(said, in_disc=False).method == wanted


@pytest.mark.parametrize("columns", [3, 500, 7192])
def test_a_table_is_for_columns_and_fourier_features(columns: int) -> None:
    assert fit_to_rows(USUAL, sites(60, columns)) == (USUAL, "")


def test_more_columns_than_ridge_takes_become_fourier_features() -> None:
    found, why = fit_to_rows(USUAL, sites(10, 7193))
    assert found == replace(USUAL, features=Fourier())
    assert "7,193 columns are too many for sums of their products" in why
    few = fedgeom.Ridge(max_features=600)
    assert fit_to_rows(few, sites(10, 20))[0] == replace(
        few, features=(LinearFeatures(), Fourier(n_components=580))
    )


def test_a_policy_that_wants_rows_for_each_feature_gets_fewer_features() -> None:
    strict = StrictPolicy()
    assert USUAL.for_rows(100, 20, 0.0) == (USUAL, "")
    assert USUAL.for_rows(2040, 20, strict.min_rows_per_feature) == (USUAL, "")
    fewer, why = USUAL.for_rows(400, 20, strict.min_rows_per_feature)
    assert fewer == replace(USUAL, features=(LinearFeatures(), Fourier(n_components=180)))
    assert why == "400 rows (min_rows_per_feature = 1 in the policy) leave room for 200 features"
    assert USUAL.for_rows(100, 20, 1.0)[0] == replace(USUAL, features=LinearFeatures())
    unfolded = replace(USUAL, features=LinearFeatures(), alpha="gcv")
    assert USUAL.for_rows(30, 20, 1.0)[0] == unfolded  # 15 a fold would be too few
    many, why = USUAL.for_rows(600, 4, 0.0, sites=200)  # otherwise they would send 200 million numbers
    assert many == replace(USUAL, features=(LinearFeatures(), Fourier(n_components=490)))
    assert why == "sums over 200 sites leave room for 500 features"
    other = fedgeom.Ridge(features="fourier")  # type: ignore[arg-type]
    assert other.for_rows(30, 20, 1.0) == (other, "")


def test_rows_that_are_kept_aside_and_columns_that_are_prepared_count() -> None:
    method = fedgeom.Ridge(holdout=0.5, prepare=[OneHot(), Impute()])  # type: ignore[arg-type]
    frame = {"sex": ["f", "m"] * 60, "age": np.arange(120.0)}
    tables = [
        SiteData.from_frame(pd.DataFrame(frame | {"y": ["a", "a", "b"] * 40}), label="y", name=n, text=True)
        for n in "abcd"
    ]
    found, _ = fit_to_rows(method, tables, StrictPolicy())
    assert [one.name for one in found.maps] == ["linear", "fourier"]  # type: ignore[attr-defined]
    assert found.maps[1].n_components == 110  # type: ignore[attr-defined]  # 240 rows in two folds, 3 columns


@pytest.mark.parametrize("prepare", [None, "table"])
def test_the_method_by_its_name_is_what_is_chosen_without_one(tmp_path: Path, prepare: str | None) -> None:
    """The file, the class and the automatic choice have one default, under a policy that allows few features too."""
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        y = np.array(["no", "yes"] * 60)
        X = rng.normal(size=(120, 3)) + (y == "yes")[:, None]
        pd.DataFrame(X, columns=list("uvw")).assign(y=y).to_csv(tmp_path / f"{name}.csv", index=False)
    blocks = "".join(f'[[sites]]\nfile = "{name}.csv"\n' for name in "abc")
    for how in ("", 'method = "ridge"\n'):
        file = tmp_path / "f.toml"
        file.write_text(f'label = "y"\n{how}' + (f'prepare = "{prepare}"\n' if prepare else "") + blocks)
        for policy in ("strict", "relaxed"):
            made[how, policy] = check_federation(file, policy=policy).method
    assert "write these settings there" in check_federation(file).chosen  # of a file that names the method
    for policy, rules in (("strict", StrictPolicy()), ("relaxed", Policy())):
        data = check_federation(file, policy=policy).sites
        own, _ = fit_to_rows(fedgeom.Ridge(prepare=prepare), data, rules)  # type: ignore[arg-type]
        assert made["", policy] == made['method = "ridge"\n', policy] == own
    assert made["", "strict"] != made["", "relaxed"]
    assert fedgeom.run(fedgeom.Ridge(prepare=prepare), data, policy=StrictPolicy()).metrics["features"] == 173  # type: ignore[arg-type]

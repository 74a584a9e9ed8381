"""Descriptions of all sites' tables: against pandas on the pooled rows, floors by hand, few rows not found out."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.methods.describe.method import Describe
from fedgeom.methods.describe.model import ABOUT, EXACT, NONE, SOME, Description
from fedgeom.testing import parametrize_with_checks
from fedgeom.testing.rehearsal import example_sites
from fedgeom.testing.span import row_terms, small_groups

pd = pytest.importorskip("pandas")
SHARES = (0.1, 0.5, 0.75)
BIN = 2.0**-11
"""How wide a bin of 20 bits is, as a share of the number."""


def table(seed: int = 0) -> object:
    """Return raw rows of four hospitals, with words, gaps, and a column that one hospital lacks."""
    rng = np.random.default_rng(seed)
    parts = []
    for at, n in enumerate((120, 90, 150, 60)):
        part = pd.DataFrame({"age": rng.normal(55 + 3 * at, 9, n), "chol": rng.normal(200, 30, n)})
        part["sex"] = rng.choice(["f", "m"], n)
        part["smoker"] = rng.choice(["no", "yes", "former", None], n, p=[0.5, 0.2, 0.15, 0.15])
        part["flag"] = (rng.random(n) < 0.3).astype(float)
        part.loc[rng.random(n) < 0.2, "chol"] = np.nan
        if at == 2:
            part["chol"] = np.nan
        part["outcome"] = rng.choice(["dead", "alive"], n, p=[0.4, 0.6])
        part["hospital"] = f"h{at}"
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def sites_of(frame: object) -> list[fedgeom.SiteData]:
    made: list[fedgeom.SiteData] = fedgeom.SiteData.from_frame(frame, label="outcome", by="hospital", text=True)
    return made


@pytest.fixture(scope="module")
def pooled() -> object:
    return table()


@pytest.fixture(scope="module")
def told(pooled: object) -> object:
    return fedgeom.describe(sites_of(pooled), quantiles=SHARES, policy=Policy())


@pytest.mark.parametrize("label", ["all", "alive", "dead"])
@pytest.mark.parametrize("column", ["age", "chol", "flag"])
def test_without_floors_numbers_are_those_of_the_pooled_rows(told, pooled, column: str, label: str) -> None:
    rows = pooled if label == "all" else pooled[pooled["outcome"] == label]
    line = told[(told["column"] == column) & (told["class"] == label)].iloc[0]
    values = rows[column].dropna()
    assert (line["rows"], line["missing"]) == (len(values), rows[column].isna().sum())
    np.testing.assert_allclose([line["mean"], line["sd"]], [values.mean(), values.std()], rtol=1e-9)
    wanted = values.quantile(SHARES).to_numpy()
    np.testing.assert_allclose(line[["q10", "q50", "q75"]].astype(float), wanted, rtol=BIN, atol=1e-12)
    assert line["rank_error"] == 0


@pytest.mark.parametrize("label", ["all", "alive", "dead"])
def test_words_have_the_shares_of_the_pooled_rows(told, pooled, label: str) -> None:
    rows = pooled if label == "all" else pooled[pooled["outcome"] == label]
    for column in ("sex", "smoker"):
        lines = told[(told["column"] == column) & (told["class"] == label)].set_index("value")
        assert lines["rows"].to_dict() == rows[column].value_counts().to_dict()
        wanted = rows[column].value_counts(normalize=True)
        np.testing.assert_allclose(lines["share"].loc[wanted.index], wanted)
        assert (lines["missing"] == rows[column].isna().sum()).all()


def test_the_frame_says_of_whom_it_is_and_what_the_floors_were(told, pooled) -> None:
    wanted = {"all": len(pooled), **pooled["outcome"].value_counts().to_dict()}
    assert told.attrs["rows"] == wanted
    assert (told.attrs["sites"], told.attrs["min_rows"]) == (4, 1)
    assert "h0" not in repr(told)


def test_under_strict_policies_means_stay_and_quantiles_keep_to_the_stated_error(pooled) -> None:
    found = fedgeom.describe(sites_of(pooled), quantiles=SHARES)
    for label in ("all", "alive", "dead"):
        rows = pooled if label == "all" else pooled[pooled["outcome"] == label]
        line = found[(found["column"] == "age") & (found["class"] == label)].iloc[0]
        np.testing.assert_allclose([line["mean"], line["sd"]], [rows["age"].mean(), rows["age"].std()], rtol=1e-9)
        assert line["rank_error"] == pytest.approx(min(1.0, (4 + 3 + 1) * 10 / len(rows)))
        for share, name in zip(SHARES, ("q10", "q50", "q75"), strict=True):
            assert abs((rows["age"] <= line[name]).mean() - share) <= line["rank_error"]


def few_gaps(rows: int, gaps: int) -> list[fedgeom.SiteData]:
    """Return sites of which the first has some gaps in its first column."""
    rng = np.random.default_rng(1)
    sites = []
    for at in range(4):
        X = rng.normal(50, 10, (rows, 2))
        X[: gaps if at == 0 else 0, 0] = np.nan
        sites.append(fedgeom.SiteData(f"s{at}", X, np.array(["a", "b"])[np.arange(rows) % 2], columns=("x", "z")))
    return sites


@pytest.mark.parametrize(
    ("gaps", "kind", "missing"),
    [(0, NONE, 0), (3, SOME, None), (9, ABOUT, 10), (30, ABOUT, 30)],
)
def test_gaps_of_few_rows_or_sites_are_told_in_tens_or_as_few(gaps: int, kind: int, missing: int | None) -> None:
    """All gaps are at one site, so their number is never told as it is."""
    model = fedgeom.run(fedgeom.Describe(by_class=False), few_gaps(60, gaps), policy=StrictPolicy()).model
    assert model.gap_kinds.tolist() == [kind, NONE]
    line = model.frame().iloc[0]
    assert np.isnan(line["missing"]) if missing is None else line["missing"] == missing
    exact = fedgeom.run(fedgeom.Describe(by_class=False), few_gaps(60, gaps)).model
    assert exact.gap_kinds.tolist() == [EXACT, EXACT]
    assert exact.frame().iloc[0]["missing"] == gaps
    assert line["mean"] == pytest.approx(exact.frame().iloc[0]["mean"], abs=0.05)


def test_a_rare_value_is_in_no_number_and_the_column_says_why() -> None:
    sites = example_sites(rows=60)
    rare = [np.zeros(60), (np.arange(60) == 7).astype(float), np.zeros(60), np.zeros(60)]
    made = [
        replace(site, table=np.column_stack([site.X, one]), columns=("x", "y", "rare"))
        for site, one in zip(sites, rare, strict=True)
    ]
    found = fedgeom.describe(made)
    (line,) = found[found["column"] == "rare"].to_dict("records")
    assert np.isnan(line["mean"])
    assert line["note"] == "left out: too few rows or sites have another value there than the usual one"


def rare_word(count: int) -> list[fedgeom.SiteData]:
    """Return sites with 60 f, 60 m and some x each, all with one label."""
    words = ("f", "m", "x")
    sites = []
    for at in range(4):
        codes = np.concatenate([np.zeros(60), np.ones(60), np.full(count, 2.0)])[:, None]
        X = np.column_stack([np.random.default_rng(at).normal(size=len(codes)), codes])
        sites.append(
            fedgeom.SiteData(f"s{at}", X, np.full(len(X), "a"), columns=("age", "sex"), categories={"sex": words})
        )
    return sites


def test_a_rare_word_goes_with_another_one_so_that_the_rest_does_not_show_it() -> None:
    """Two rows of each site, 8 in all, are x; the 488 others less f and m would be x."""
    model = fedgeom.run(fedgeom.Describe(by_class=False), rare_word(2), policy=StrictPolicy()).model
    words, _ = model.categories(1, 0)
    assert sorted(count for _, count in words) == [240, 248]
    enough = fedgeom.run(fedgeom.Describe(by_class=False), rare_word(20), policy=StrictPolicy()).model
    assert dict(enough.categories(1, 0)[0]) == {"f": 240, "m": 240, "x": 80}


NASTY = {
    "gaps of two columns that differ in one row": lambda X: _gaps(X, [(1, slice(0, 20)), (2, slice(0, 21))]),
    "gaps in a class alone": lambda X: _gaps(X, [(1, slice(0, 8, 2))]),
    "a copy but for a row": lambda X: _copied(X),
    "a flag that tells a gap": lambda X: _flagged(X),
}


def _gaps(X: np.ndarray, places: list) -> np.ndarray:
    for column, rows in places:
        X[rows, column] = np.nan
    return X


def _copied(X: np.ndarray) -> np.ndarray:
    X[:, 2] = X[:, 1]
    X[5, 2] += 1
    return X


def _flagged(X: np.ndarray) -> np.ndarray:
    X[:15, 1] = np.nan
    X[:, 2] = np.isnan(X[:, 1])
    X[3, 2] = 0
    return X


@pytest.mark.parametrize("by_class", [pytest.param(False, marks=pytest.mark.full), True])
@pytest.mark.parametrize("name", NASTY)
def test_no_weighted_sum_of_a_description_rests_on_few(name: str, by_class: bool) -> None:
    sites = []
    for at in range(4):
        X = np.random.default_rng(at).normal(size=(70, 4))
        X = NASTY[name](X) if at == 1 else _gaps(X, [(1, slice(0, 12)), (2, slice(0, 12))])
        sites.append(fedgeom.SiteData(f"s{at}", X, np.array(["a", "b"])[np.arange(70) % 2]))
    found = row_terms(fedgeom.Describe(by_class=by_class), sites, StrictPolicy())
    assert {number.split(" ")[0] for number in found.numbers} == {"prepare.summaries"}
    assert small_groups(found, sites, 10, 3) == []


@parametrize_with_checks([fedgeom.Describe(by_class=False, quantiles=())], level="smoke")
def test_smoke(check) -> None:
    check()


@pytest.mark.full
@parametrize_with_checks(
    {"classes": fedgeom.Describe(), "told": fedgeom.Describe(per_site=True, quantiles=(0.5,))}
)
def test_contract(check) -> None:
    check()


def test_each_site_tells_its_gaps_where_policies_allow_it_alone(pooled) -> None:
    sites = sites_of(pooled)
    model = fedgeom.run(fedgeom.Describe(per_site=True, quantiles=()), sites).model
    frame = model.gaps_frame().set_index("column")
    assert frame.loc["chol"].to_dict() == {
        name: float(rows["chol"].isna().sum()) for name, rows in pooled.groupby("hospital")
    }
    with pytest.raises(
        InputError, match="secure_only = true, but these settings show the coordinator how many gaps"
    ):
        fedgeom.describe(sites, per_site=True)


def test_few_gaps_of_a_site_are_told_as_few() -> None:
    policy = StrictPolicy(secure_only=False)
    model = fedgeom.run(fedgeom.Describe(per_site=True, by_class=False), few_gaps(60, 4), policy=policy).model
    assert model.gaps_frame().iloc[0].tolist() == ["x", -1, 0, 0, 0]


def test_a_description_is_saved_read_pickled_and_predicts_nothing(pooled, tmp_path: Path) -> None:
    model = fedgeom.run(fedgeom.Describe(), sites_of(pooled)).model
    model.save(tmp_path / "d.safetensors")
    again = fedgeom.load_model(tmp_path / "d.safetensors")
    assert isinstance(again, Description)
    pd.testing.assert_frame_equal(again.frame(), model.frame(), check_exact=True)
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(model)).frame(), model.frame(), check_exact=True)
    with pytest.raises(InputError, match="a description predicts nothing"):
        again.predict(np.zeros((1, 5)))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"quantiles": (0.5, 1.5)}, "wanted a list of numbers from 0 to 1"),
        ({"quantiles": "half"}, "wanted a list of numbers from 0 to 1"),
        ({"prepare": "table"}, "a description is of raw tables, so leave it out"),
        ({"holdout": 0.25}, "a description is of all rows, so leave it out"),
        ({"categories": ("sex", "sex")}, "all different"),
        ({"by_class": "no"}, "wanted True or False"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(settings: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        fedgeom.Describe(**settings)


def test_a_label_with_many_values_is_no_class_and_the_error_says_what_to_do() -> None:
    sites = [replace(site, y=np.arange(24).astype(str)) for site in example_sites()]
    with pytest.raises(InputError, match="describe all rows together"):
        fedgeom.describe(sites)
    assert len(fedgeom.describe(sites, by_class=False)) == 2


def test_two_sites_are_too_few_unless_the_policy_allows_it() -> None:
    with pytest.raises(InputError, match="2 sites were given; sums need 3"):
        fedgeom.describe(example_sites(2))


def test_a_column_too_many_for_a_message_is_told_beforehand() -> None:
    sites = [
        fedgeom.SiteData(f"s{at}", np.random.default_rng(at).normal(size=(20, 400)), np.array(["a", "b"] * 10))
        for at in range(3)
    ]
    with pytest.raises(InputError, match=r"describe fewer columns \(columns = \[…\]\), all rows together"):
        fedgeom.describe(sites, policy=Policy(max_message_bytes=100_000))


def test_a_word_that_is_put_with_rare_ones_keeps_its_name_at_strict_sites() -> None:
    rng = np.random.default_rng(0)
    count = 906
    frame = pd.DataFrame({"age": rng.normal(60, 9, count), "sex": rng.choice(["f", "m"], count, p=[0.45, 0.55])})
    frame["dead"] = rng.integers(0, 2, count)
    frame["site"] = [*(f"s{at % 5}" for at in range(count - 6)), *["tiny"] * 6]
    frame.loc[count - 6 :, "sex"] = ["f", "f", "f", "m", "m", "m"]  # too few for their site to name
    sites = fedgeom.SiteData.from_frame(frame, label="dead", by="site", text=True)
    found = fedgeom.run(Describe(by_class=False), sites, policy=StrictPolicy()).model
    words = dict(found.categories(found.raw.index("sex"), 0)[0])
    assert words == {"m": (frame["sex"] == "m").sum(), "f or others": (frame["sex"] == "f").sum()}

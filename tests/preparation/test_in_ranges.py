"""Steps with privacy: what one row can move, what is learnt without noise, and runs through the secure sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, InputError, Moments, SiteData
from fedgeom.errors import ProtocolError
from fedgeom.federation.preparation import Fitting
from fedgeom.federation.privacy import parts_of
from fedgeom.federation.steps import Columns, Step
from fedgeom.preparation import PCA, Impute, LogCounts, OneHot, Pipeline, Scale, SelectVariable, fit_plain
from fedgeom.preparation.private_steps import middle_of, read_ranges
from fedgeom.privacy.accounting import epsilon_of

pytestmark = pytest.mark.usefixtures("fixed_noise")

CLASSES = ("ill", "well")
RANGES = {"age": [0, 100], "dose": [-1, 1], "*": [0, 1]}


def table(name: str, rows: int = 300, seed: int = 0) -> SiteData:
    rng = np.random.default_rng([seed, *name.encode()])
    ill = rng.random(rows) < 0.5
    age, dose = rng.normal(50 + 20 * ill, 10), rng.normal(0.4 * ill, 0.2)
    sex = rng.integers(0, 2, rows).astype(float)
    X = np.column_stack([age, dose, sex])
    X[rng.random(rows) < 0.1, 1] = np.nan
    words = {"sex": ("f", "m")}
    return SiteData(name, X, np.where(ill, *CLASSES), columns=("age", "dose", "sex"), categories=words)


def numbers(rows: int, seed: int = 0, gaps: float = 0.2) -> SiteData:
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=40.0, size=(rows, 5))
    X[rng.random(X.shape) < gaps] = np.nan
    return SiteData("s", X, ["a"] * rows, columns=tuple("vwxyz"))


def moved(step: Step, site: SiteData) -> tuple[float, float]:
    """Return by how much one row moves the step's sum at most, and by how much it may."""
    columns = Columns(width=site.shape[1], names=site.columns)

    def summed(part: SiteData) -> Any:
        return Fitting((step,), columns, 0, (1, 1), 1, [], private=True).summand(part, {})

    whole, most = summed(site), 0.0
    for at in range(len(site)):
        less = summed(site.take(np.arange(len(site)) != at))
        most = max(most, float(np.linalg.norm((whole - less).astype(np.float64))))
    return most, Fitting((step,), columns, 0, (1, 1), 1, [], private=True).sensitivity()


@pytest.mark.parametrize(
    "step",
    [
        Scale(ranges=[-30, 30]),
        Impute("mean", ranges=[-30, 30]),
        Impute("median", ranges={"v": [0, 1], "*": [-9, 90]}),
        Impute("most-frequent", ranges=[-30, 30]),
        PCA(2, clip=20.0),
        SelectVariable(2, flavor="variance", clip=20.0),
        LogCounts(),
    ],
)
def test_no_row_moves_a_steps_sum_by_more_than_is_reckoned_with(step: Step) -> None:
    site = numbers(30, gaps=0.2 if isinstance(step, Impute) else 0.0)
    if isinstance(step, LogCounts):
        site = SiteData("s", np.abs(site.X), site.y, columns=site.columns)
    most, allowed = moved(step, site)
    assert 0.5 * allowed < most <= allowed


def test_without_noise_they_learn_what_they_learn_without_privacy() -> None:
    sites = [table(name, 2000) for name in "nsw"]
    steps = (
        OneHot(categories={"sex": ["f", "m"]}),
        Impute("median", ranges=RANGES),
        Scale(ranges={**RANGES, "dose": [-1.5, 1.5]}),
        PCA(2, clip=6.0),
    )
    bounded, usual = fit_plain(steps, sites, private=True), fit_plain(steps, sites)
    assert bounded.columns == usual.columns
    values = [made.fits[1].get("value") for made in (bounded, usual)]
    assert np.allclose(*values, atol=np.array([1.6, 0.04, *[0.04] * 4]))  # half a bin
    for name, within in (("mean", 0.03), ("deviation", 0.03)):
        found, wanted = bounded.fits[2].get(name), usual.fits[2].get(name)
        assert np.allclose(found[:3], wanted[:3], rtol=within, atol=0.02)
    X = sites[0].take(np.arange(50))
    far = np.abs(np.asarray(bounded.transform(X).table)) - np.abs(np.asarray(usual.transform(X).table))
    assert np.abs(far).mean() < 0.3


def test_middles_of_counts() -> None:
    assert middle_of(np.array([0.0, 10, 10, 0]), 0.0) == 0.5
    assert middle_of(np.array([4.0, 0, 0, 0]), 0.0) == 0.125
    assert middle_of(np.array([0.0, 0, 0, 3]), 0.0) == 0.875
    assert middle_of(np.array([-3.0, 2, -2, 3]), 5.0) == 0.5  # nothing but noise


def job(**settings: Any) -> Any:
    steps = (OneHot(categories={"sex": ["f", "m"]}), Impute(ranges=RANGES), Scale(ranges=RANGES))
    usual = {"space": "euclidean", "rule": "centroid", "classes": CLASSES, "min_sites": 3}
    privacy = settings.pop("privacy", DP(epsilon=2, clip=3.0))
    return Pipeline(*steps, Moments(**usual | {"privacy": privacy} | settings))


def test_a_run_prepares_with_noise_and_its_model_takes_raw_rows() -> None:
    sites, method = [table(name) for name in "nsw"], job(holdout=0.2)
    run = fedgeom.run(method, sites)
    test = table("t", 1000)
    assert (run.model.predict(test) == test.y).mean() > 0.85
    fits = run.model.preparation.fits
    plain = fit_plain(method.preparing, sites, private=True).fits
    assert not np.allclose(fits[2].get("mean")[:5], plain[2].get("mean")[:5], rtol=1e-6)  # noise is there
    assert np.allclose(fits[2].get("mean")[:5], plain[2].get("mean")[:5], atol=[15, 0.3, 0.3, 0.3, 0.3])
    again = fedgeom.run(method, sites)
    assert not np.allclose(again.model.preparation.fits[2].get("mean")[:5], fits[2].get("mean")[:5], rtol=1e-6)


def test_steps_and_method_share_what_the_run_may_cost() -> None:
    method = job()
    assert parts_of(method) == 3  # words that stand in the terms cost nothing
    from fedgeom.privacy.accounting import rho_for
    from fedgeom.protocols.noise import sum_noise

    each = sum_noise(method, {}, sensitivity=1.0, numbers=1).rho
    assert each == pytest.approx(rho_for(2.0, 1e-5) / 3)
    assert epsilon_of([each] * 3, 1e-5) == pytest.approx(2.0, rel=1e-4)
    assert sum_noise(method, {}, sensitivity=1.0, numbers=1, apart=True).rho == pytest.approx(3 * each)


def test_nothing_is_told_of_words_or_empty_columns() -> None:
    odd = table("n")
    strange = SiteData("n", odd.X, odd.y, columns=odd.columns, categories={"sex": ("f", "m", "secret")})
    run = fedgeom.run(job(), [strange, table("s"), table("w")])
    assert run.model.preparation.raw.categories == {2: ("f", "m", "")}
    empty = odd.X.copy()
    empty[:, 1] = np.nan
    hollow = SiteData("n", empty, odd.y, columns=odd.columns, categories={"sex": ("f", "m")})
    assert fedgeom.run(job(), [hollow, table("s"), table("w")]).model.preparation.raw.width == 3


def test_text_that_the_terms_do_not_know_is_refused_at_the_site() -> None:
    sites = [table(name) for name in "nsw"]
    more = [
        SiteData(
            one.name, np.column_stack([one.X, np.zeros(len(one))]), one.y, columns=(*one.columns, "ward"),
            categories={**one.categories, "ward": ("one",)},
        )
        for one in sites
    ]  # fmt: skip
    with pytest.raises(InputError, match="the terms do not say which words"):
        fedgeom.run(job(), more)


def test_bad_ranges_say_what_is_wanted() -> None:
    assert read_ranges([0, 1], "scale") == {"*": [0.0, 1.0]}
    with pytest.raises(InputError, match=r"wanted a pair \[low, high\].*No setting is inf or nan"):
        Scale(ranges={"a": [0, float("inf")]})
    for bad in (3, [1, 0], [0], {"a": "01"}, [True, 2]):
        with pytest.raises(InputError, match="wanted \\[low, high\\] for all columns"):
            Scale(ranges=bad)
    with pytest.raises(InputError, match="as a table of words"):
        OneHot(categories=["f", "m"])
    with pytest.raises(InputError, match="categories of 'sex'"):
        OneHot(categories={"sex": "fm"})
    steps = (Impute(ranges={"age": [0, 100]}),)
    sites = [SiteData(name, np.ones((9, 2)), ["a"] * 9, columns=("age", "dose")) for name in "ns"]
    with pytest.raises(ProtocolError, match="no range for 'dose'"):
        fit_plain(steps, sites, private=True)
    with pytest.raises(ProtocolError, match="the most frequent of more than 1,024"):
        fit_plain((Impute("most-frequent", ranges=[0, 5000]),), sites, private=True)
    with pytest.raises(ProtocolError, match="at most 1 "):
        fit_plain((PCA(1, exact_columns=1, clip=1.0),), sites, private=True)
    with pytest.raises(InputError, match="per site takes rows that need no preparation"):
        fedgeom.FedAvg(
            classes=CLASSES,
            scale="none",
            weights="sites",
            prepare=[Scale(ranges=[0, 1])],
            privacy=DP(epsilon=1, clip=1, unit="site"),
        )


def test_terms_with_tables_travel() -> None:
    method = job()
    assert Moments.from_terms(method.terms()) == method
    assert fedgeom.load_model

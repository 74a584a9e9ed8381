"""Cox equals a fit of all rows in one place, whatever the partition; floors hold; bad tables are told in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import StrictPolicy
from fedgeom.testing import check_method
from tests.methods.survival import twin
from tests.methods.survival.making import part, rows

EXACT = fedgeom.Cox(exact=True)


def pooled(sites: list[SiteData]) -> tuple[Any, Any, Any]:
    return tuple(
        np.concatenate([one.X if name == "X" else one.extra[name] for one in sites])
        for name in ("X", "time", "event")
    )  # type: ignore[return-value]


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_a_secure_run_equals_the_twin_on_all_rows(ties: str) -> None:
    sites = part(*rows())
    run = fedgeom.run(fedgeom.Cox(exact=True, ties=ties), sites)
    X, time, event = pooled(sites)
    b, V, likelihood = twin.cox(X, time, event, ties)
    model = run.model
    np.testing.assert_allclose(model.coefficients, b, rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.diag(model.covariance)), np.sqrt(np.diag(V)), rtol=1e-6)
    assert model.statistics["log_likelihood"] == pytest.approx(likelihood, rel=1e-9)
    np.testing.assert_allclose(model.times, np.unique(time[event]))
    np.testing.assert_allclose(np.cumsum(model.hazard), twin.baseline(X, time, event, b, ties), rtol=1e-6)
    assert model.at_risk.tolist() == [int((time >= t).sum()) for t in model.times]
    np.testing.assert_allclose(
        model.proportionality()["chi2"].to_numpy()[1:], twin.proportionality(X, time, event, ties), rtol=1e-5
    )
    assert not run.warnings
    table = model.summary()
    assert list(table.index) == ["age", "marker", "arm"]
    assert list(table.columns) == ["coef", "se", "low", "high", "p"]
    ratios = model.summary(exponentiate=True)
    np.testing.assert_allclose(ratios["coef"], np.exp(b), rtol=1e-7)
    assert ((ratios["low"] < ratios["coef"]) & (ratios["coef"] < ratios["high"])).all()


@pytest.mark.parametrize("method", [EXACT, fedgeom.Cox()], ids=["exact", "grouped"])
def test_the_partition_makes_no_difference(method: Any) -> None:
    X, time, event = rows()
    models = [method.plain(part(X, time, event, n_sites=k, seed=k)).model for k in (2, 4, 9)]
    for other in models[1:]:
        np.testing.assert_allclose(other.coefficients, models[0].coefficients, rtol=1e-7)
        np.testing.assert_allclose(other.covariance, models[0].covariance, rtol=1e-6, atol=1e-18)


def test_strata_that_are_sites_equal_the_twins_with_exact_times() -> None:
    sites = part(*rows(whole=0.5))
    sites[0] = replace(sites[0], extra={**sites[0].extra, "event": np.zeros(len(sites[0]), bool)})
    run = fedgeom.run(fedgeom.Cox(stratify="site"), sites)
    of = np.concatenate([np.full(len(one), at) for at, one in enumerate(sites)])
    b, V, likelihood = twin.cox(*pooled(sites), "efron", of)
    np.testing.assert_allclose(run.model.coefficients, b, rtol=1e-7)
    np.testing.assert_allclose(np.diag(run.model.covariance), np.diag(V), rtol=1e-6)
    assert run.model.statistics["log_likelihood"] == pytest.approx(likelihood, rel=1e-9)
    assert not run.lost
    for ask in (run.model.baseline, run.model.proportionality, lambda: run.model.predict_survival(sites[0].X)):
        with pytest.raises(InputError, match="stratify"):
            ask()


def test_grouped_times_equal_the_twin_on_the_same_intervals() -> None:
    sites = part(*rows(900))
    model = fedgeom.Cox(n_intervals=12).plain(sites).model
    X, time, event = pooled(sites)
    into = np.searchsorted(model.times[:-1], time, side="left")
    b, V, _ = twin.cox(X, into, event)
    np.testing.assert_allclose(model.coefficients, b, rtol=1e-7)
    np.testing.assert_allclose(np.diag(model.covariance), np.diag(V), rtol=1e-6)
    exact = EXACT.plain(sites).model
    se = np.sqrt(np.diag(exact.covariance))
    off = np.abs((model.coefficients - exact.coefficients) / se).max()
    assert 0 < off < 0.5
    told = model.statistics["grouping_error"]
    coarse = twin.cox(X, into // 2, event)[0]
    assert told == pytest.approx(np.abs((coarse - b) / np.sqrt(np.diag(V))).max(), rel=0.1)


def test_at_strict_sites_no_interval_rests_on_few() -> None:
    sites = part(*rows(900))
    run = fedgeom.run(fedgeom.Cox(), sites, policy=StrictPolicy())
    model, (_, time, event) = run.model, pooled(sites)
    assert 2 <= len(model.times) < 50
    into = np.searchsorted(model.times[:-1], time, side="left")
    left = -np.diff(np.append(model.at_risk, 0)) - model.events
    for counts in (model.events, left):  # rows that leave have intervals of their own
        assert ((counts == 0) | (counts >= 3 * 2 * 16)).all()
    assert left.sum() == (~event).sum()
    assert model.events.tolist() == np.bincount(into[event], minlength=len(model.times)).tolist()
    assert any("in half as many" in str(one) for one in run.warnings) == (model.statistics["grouping_error"] > 0.1)
    with pytest.raises(fedgeom.TooFewSitesError, match="when single rows had their event"):
        fedgeom.run(EXACT, sites, policy=StrictPolicy())
    strata = fedgeom.run(fedgeom.Cox(stratify="site"), sites, policy=StrictPolicy())
    assert strata.model.facts["converged"]


def test_too_few_events_for_floors_are_told_with_what_to_do() -> None:
    X, time, event = rows(600)
    event &= np.arange(600) % 3 == 0
    with pytest.raises(InputError, match=r'where policies have floors.*stratify="site"'):
        fedgeom.run(fedgeom.Cox(), part(X, time, event), policy=StrictPolicy())


def test_two_fits_are_compared_by_their_likelihoods() -> None:
    X, time, event = rows()
    fewer = [replace(one, columns=("age", "marker")) for one in part(X[:, :2], time, event)]
    larger, smaller = (fedgeom.run(EXACT, sites).model for sites in (part(X, time, event), fewer))
    test = larger.likelihood_ratio(smaller)
    ends = [twin.cox(some, time, event)[2] for some in (X, X[:, :2])]
    assert test["chi2"] == pytest.approx(2 * (ends[0] - ends[1]), rel=1e-6)
    assert test["df"] == 1
    strata = fedgeom.run(fedgeom.Cox(stratify="site"), part(X, time, event)).model
    with pytest.raises(InputError, match="different intervals of time"):
        strata.likelihood_ratio(smaller)


def test_words_have_a_reference_and_the_treatment_is_told_first() -> None:
    X, time, event = rows()
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["age", "marker", "arm"])
    frame["arm"] = np.array(["placebo", "low", "high"])[np.arange(len(time)) % 3]
    frame["days"], frame["died"], frame["centre"] = time, event.astype(int), np.arange(len(time)) % 5
    sites = SiteData.from_frame(frame, time="days", event="died", by="centre", text=True)
    method = fedgeom.Cox(exact=True, prepare=["one-hot"], reference=("arm = placebo",), treatment="arm = high")
    table = fedgeom.run(method, sites).model.summary()
    assert list(table.index) == ["arm = high", "age", "marker", "arm = low"]
    dummies = np.column_stack([X[:, :2], frame["arm"] == "high", frame["arm"] == "low"]).astype(float)
    b, _, _ = twin.cox(dummies, time, event)
    np.testing.assert_allclose(table["coef"], b[[2, 0, 1, 3]], rtol=1e-6)


def test_ridge_holds_coefficients_back() -> None:
    sites = part(*rows())
    free, held = (fedgeom.Cox(exact=True, ridge=one).plain(sites).model.coefficients for one in (0.0, 50.0))
    assert (np.abs(held) < np.abs(free)).all()


def test_perfect_separation_is_told_and_nothing_is_lost() -> None:
    X, time, event = rows()
    X[:, 2] = np.where(event, 1, 0)  # nobody without it ever has the event
    sites = part(X, time, event)
    for method in (EXACT, fedgeom.Cox(stratify="site")):
        run = fedgeom.run(method, sites)
        assert not run.lost
        assert any("grow without end" in str(one) for one in run.warnings), [str(one) for one in run.warnings]
        assert np.isnan(run.model.summary()["se"]).all()
    assert fedgeom.run(replace(EXACT, ridge=5.0), sites).model.facts["converged"]


def test_constant_and_collinear_columns_are_left_out_and_told() -> None:
    X, time, event = rows()
    wide = np.column_stack([X, X[:, 0] * 2 - 3, np.full(len(time), 7.0)])
    sites = part(wide, time, event)
    run = fedgeom.run(EXACT, sites)
    assert any("follow from others (number 3, number 4)" in str(one) for one in run.warnings)
    b, _, _ = twin.cox(X, time, event)
    np.testing.assert_allclose(run.model.coefficients[:3], b, rtol=1e-6)
    assert np.isnan(run.model.summary().loc["x3", "coef"])
    named = [replace(one, columns=("age", "marker", "arm", "twice", "same")) for one in sites]
    assert any("follow from others ('twice', 'same')" in str(one) for one in fedgeom.run(EXACT, named).warnings)


def spoilt(sites: list[SiteData], **extra: float) -> list[SiteData]:
    """Return the sites, of which one row of the second has another value."""
    found = dict(sites[1].extra)
    for name, value in extra.items():
        cells = np.array(found[name], np.float64)
        cells[3] = value
        found[name] = cells
    return [sites[0], replace(sites[1], extra=found), *sites[2:]]


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"time": -3.0}, "1 times are negative, the first of them -3"),
        ({"time": np.nan}, "is no number"),
        ({"event": 2.0}, "neither 0 nor 1"),
    ],
)
def test_times_and_events_that_cannot_be_used_are_told(extra: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fedgeom.run(EXACT, spoilt(part(*rows()), **extra))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda time, event: (time, event & (np.arange(len(time)) == np.flatnonzero(event)[0])), "one row of all"),
        (lambda time, event: (time, np.zeros(len(time), bool)), "no row of all sites has the event"),
        (lambda time, event: (np.where(event, 30.0, time), event), "events are at the time 30"),
    ],
    ids=["one event", "no event", "ties only"],
)
def test_too_few_events_are_told(change: Any, said: str) -> None:
    X, time, event = rows()
    with pytest.raises(InputError, match=said):
        fedgeom.run(EXACT, part(X, *change(time, event)))


def test_sites_without_times_are_told() -> None:
    sites = [
        SiteData(f"s{at}", np.random.default_rng(at).normal(size=(30, 2)), np.arange(30) % 2) for at in range(3)
    ]
    with pytest.raises(InputError, match="have no time and no event"):
        fedgeom.run(fedgeom.Cox(), sites)


def test_too_fine_a_unit_is_told() -> None:
    with pytest.raises(InputError, match=r"20,000 units of 0.001; give a larger unit"):
        fedgeom.run(fedgeom.Cox(exact=True, unit=0.001), part(*rows()))


def test_models_travel_as_files(tmp_path: Any) -> None:
    sites = part(*rows())
    for method in (EXACT, fedgeom.Cox(stratify="site")):
        run = fedgeom.run(method, sites)
        run.model.save(tmp_path / "model")
        again = fedgeom.load_model(tmp_path / "model")
        assert again.summary().equals(run.model.summary())
        assert np.array_equal(again.predict(sites[0].X), run.model.predict(sites[0].X))
    curves = fedgeom.run(EXACT, sites).model.predict_survival(sites[0].X)
    assert (np.diff(curves, axis=1) < 0).all()
    assert ((curves > 0) & (curves < 1)).all()


def test_coefficients_are_those_of_statsmodels() -> None:
    sm = pytest.importorskip("statsmodels.api")
    sites = part(*rows())
    X, time, event = pooled(sites)
    for ties in ("efron", "breslow"):
        theirs = sm.PHReg(time, X, status=event.astype(int), ties=ties).fit(disp=0)
        ours = fedgeom.Cox(exact=True, ties=ties).plain(sites).model
        np.testing.assert_allclose(ours.coefficients, theirs.params, rtol=1e-6)
        np.testing.assert_allclose(np.sqrt(np.diag(ours.covariance)), theirs.bse, rtol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("settings", [{}, {"stratify": "site"}])
def test_the_contract(settings: dict[str, Any]) -> None:
    X, time, event = rows(900)
    check_method(fedgeom.Cox(**settings), part(X[:, 1:], time, event, 5, least=60))

"""Survival curves equal those of all rows in one place; floors hold for each group; bad tables are told in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import SiteData
from fedgeom.deploy.federation_file import build_method, read_federation
from fedgeom.errors import InputError
from fedgeom.federation.policy import StrictPolicy
from fedgeom.testing import check_method
from tests.methods.survival import twin
from tests.methods.survival.making import part, rows


def trial(count: int = 600, words: tuple[str, ...] = ("aspirin", "placebo")) -> tuple[list[SiteData], Any]:
    """Return sites with a column of words, and the frame of all rows."""
    X, time, event = rows(count)
    frame = pytest.importorskip("pandas").DataFrame({"age": X[:, 0], "days": time, "died": event.astype(int)})
    frame["arm"] = np.array(words)[np.random.default_rng(5).integers(0, len(words), count)]
    frame["centre"] = np.random.default_rng(6).integers(0, 6, count)
    return SiteData.from_frame(frame, time="days", event="died", by="centre", text=True), frame


@pytest.mark.parametrize("words", [("aspirin", "placebo"), ("aspirin", "both", "placebo")])
def test_a_secure_run_equals_the_twin_on_all_rows(words: tuple[str, ...]) -> None:
    sites, frame = trial(words=words)
    model = fedgeom.run(fedgeom.KaplanMeier(by="arm", exact=True), sites).model
    assert model.names == words
    for word, own in frame.groupby("arm"):
        days, died = own["days"].to_numpy(), own["died"].to_numpy() == 1
        ends, curve, sums = twin.curve(days, died)
        table = model.curves().loc[word]
        table = table[table["events"] > 0]
        assert table["time"].tolist() == ends
        assert table["at_risk"].tolist() == [int((days >= t).sum()) for t in ends]
        np.testing.assert_allclose(table["survival"], curve, rtol=1e-12)
        inside = np.array(curve) > 0
        z = 1.959963984540054 * np.sqrt(np.array(sums)[inside]) / -np.log(np.array(curve)[inside])
        np.testing.assert_allclose(table["low"][inside], np.array(curve)[inside] ** np.exp(z), rtol=1e-9)
        np.testing.assert_allclose(table["high"][inside], np.array(curve)[inside] ** np.exp(-z), rtol=1e-9)
        mean = model.restricted_means(300.0).loc[word, "mean"]
        assert mean == pytest.approx(twin.restricted_mean(days, died, 300.0), rel=1e-4)
    if len(words) == 2:
        found = model.log_rank()
        wanted = twin.log_rank(frame["days"].to_numpy(), frame["died"].to_numpy() == 1, frame["arm"].to_numpy())
        assert found["chi2"] == pytest.approx(wanted, rel=1e-9)
        assert found["df"] == 1


def test_the_error_of_a_restricted_mean_is_that_of_repeated_samples() -> None:
    sites, frame = trial()
    found = fedgeom.KaplanMeier(exact=True).plain(sites).model.restricted_means(300.0).loc["all"]
    rng = np.random.default_rng(0)
    days, died = frame["days"].to_numpy(), frame["died"].to_numpy() == 1
    drawn = [rng.integers(0, len(days), len(days)) for _ in range(200)]
    means = [twin.restricted_mean(days[at], died[at], 300.0, 3000) for at in drawn]
    assert found["se"] == pytest.approx(np.std(means), rel=0.2)


def test_one_curve_of_all_rows_and_the_partition_makes_no_difference() -> None:
    X, time, event = rows()
    models = [fedgeom.KaplanMeier(exact=True).plain(part(X, time, event, n_sites=k, seed=k)).model for k in (2, 7)]
    ends, curve, _ = twin.curve(time, event)
    for model in models:
        assert model.names == ("all",)
        assert model.times.tolist() == ends
        np.testing.assert_allclose(model.survival[0], curve, rtol=1e-12)
        assert model.at([0.0, 100.0]).tolist() == [
            [int((time > 0).sum()), int((time >= ends[np.searchsorted(ends, 100.0, side="right")]).sum())]
        ]
    with pytest.raises(InputError, match="one group given"):
        models[0].log_rank()


def test_at_strict_sites_no_group_has_few_in_an_interval() -> None:
    sites, frame = trial(900)
    run = fedgeom.run(fedgeom.KaplanMeier(by="arm"), sites, policy=StrictPolicy())
    model = run.model
    assert not run.lost
    assert model.names == ("aspirin", "placebo")
    assert len(model.times) >= 3
    into = np.searchsorted(model.times[:-1], frame["days"].to_numpy(), side="left")
    for at, word in enumerate(model.names):
        own = (frame["arm"] == word).to_numpy()
        for happened in (True, False):
            ends = own & ((frame["died"] == 1).to_numpy() == happened)
            counts = np.bincount(into[ends], minlength=len(model.times))
            if happened:
                assert ((counts == 0) | (counts >= 10)).all()
                assert model.events[at].tolist() == counts.tolist()
        left = -np.diff(np.append(model.at_risk[at], 0)) - model.events[at]  # in intervals of their own
        assert ((left == 0) | (left >= 10)).all()
        assert left.sum() == (own & (frame["died"] == 0).to_numpy()).sum()
    exact = fedgeom.KaplanMeier(by="arm", exact=True).plain(sites).model
    near = np.searchsorted(exact.times, model.times[:-1], side="right") - 1
    np.testing.assert_allclose(model.survival[:, :-1], exact.survival[:, near], atol=0.05)
    own = model.restricted_means(400.0)["mean"].to_numpy()
    np.testing.assert_allclose(own, exact.restricted_means(400.0)["mean"].to_numpy(), rtol=0.05)


def test_a_trial_that_few_leave_early_has_many_intervals_at_strict_sites() -> None:
    rng = np.random.default_rng(5)
    count = 4000
    time, end = (
        rng.exponential(400.0, count),
        np.where(rng.random(count) < 0.01, rng.uniform(0, 180, count), 180.0),
    )
    died = time <= end
    sites = [
        SiteData(
            f"s{at}",
            rng.integers(0, 2, (some.sum(), 1)).astype(float),
            died[some].astype(int),
            {"time": np.minimum(time, end)[some], "event": died[some]},
            columns=("arm",),
        )
        for at in range(6)
        for some in [np.arange(count) % 6 == at]
    ]
    model = fedgeom.run(fedgeom.KaplanMeier(), sites, policy=StrictPolicy()).model
    assert len(model.times) > 20
    exact = fedgeom.KaplanMeier(exact=True, unit=0.1).plain(sites).model
    near = np.searchsorted(exact.times, model.times[:-1], side="right") - 1
    np.testing.assert_allclose(model.survival[0, :-1], exact.survival[0, near], atol=0.003)
    cox = fedgeom.run(fedgeom.Cox(), sites, policy=StrictPolicy()).model
    assert cox.statistics["intervals"] > 20
    whole = fedgeom.Cox(exact=True, unit=0.1).plain(sites).model
    assert abs(cox.coefficients - whole.coefficients)[0] < 0.05 * np.sqrt(whole.covariance[0, 0])
    rare = [
        replace(one, table=np.column_stack([one.X, np.arange(len(one)) % 200 == 0]), columns=("arm", "rare"))
        for one in sites
    ]
    run = fedgeom.run(fedgeom.Cox(), rare, policy=StrictPolicy())
    assert list(run.model.summary().index) == ["arm"]
    assert any("too few rows with the event have 1 there, or 0" in one.what for one in run.warnings)


def test_bad_input_is_told() -> None:
    sites, _ = trial()
    with pytest.raises(InputError, match="by='arms'"):
        fedgeom.run(fedgeom.KaplanMeier(by="arms", exact=True), sites)
    spoilt = {**sites[0].extra, "time": -sites[0].extra["time"]}
    with pytest.raises(InputError, match="times are negative"):
        fedgeom.run(fedgeom.KaplanMeier(by="arm", exact=True), [replace(sites[0], extra=spoilt), *sites[1:]])
    with pytest.raises(InputError, match="horizon=-1 given"):
        fedgeom.KaplanMeier(exact=True).plain(sites).model.restricted_means(-1)
    with pytest.raises(InputError, match="predict nothing"):
        fedgeom.KaplanMeier(exact=True).plain(sites).model.predict(np.zeros((1, 1)))


def test_a_federation_file_names_the_groups_as_treatment(tmp_path: Any) -> None:
    _, frame = trial()
    frame.to_csv(tmp_path / "all.csv", index=False)
    said = 'method = "kaplan-meier"\nfile = "all.csv"\nsites_from = "centre"\ntime = "days"\nevent = "died"\n'
    (tmp_path / "federation.toml").write_text(said + 'treatment = "arm"\n')
    federation = read_federation(tmp_path / "federation.toml")
    assert federation.keeps_text
    assert build_method(tmp_path / "federation.toml", federation).by == "arm"


def test_the_verdict_says_whether_the_curves_differ_and_tells_no_tail() -> None:
    sites, _ = trial()
    run = fedgeom.run(fedgeom.KaplanMeier(by="arm", exact=True), sites)
    model = run.model
    when = float(run.verdict.split("without it at ")[1].split(":")[0])
    at = np.searchsorted(model.times, when - 0.5)
    assert (model.at_risk[:, at] >= 0.1 * model.at_risk[:, 0]).all()
    assert f"aspirin {model.survival[0, at]:.1%}" in run.verdict
    differ = model.log_rank()["p"] < 0.05
    assert ("The groups' curves differ" in run.verdict) == differ


def test_models_travel_as_files(tmp_path: Any) -> None:
    run = fedgeom.run(fedgeom.KaplanMeier(by="arm"), trial()[0])
    run.model.save(tmp_path / "model")
    assert fedgeom.load_model(tmp_path / "model").curves().equals(run.model.curves())


@pytest.mark.full
@pytest.mark.parametrize("settings", [{}, {"by": "arm"}])
def test_the_contract(settings: dict[str, Any]) -> None:
    check_method(fedgeom.KaplanMeier(**settings), part(*rows(600), 5, least=60))

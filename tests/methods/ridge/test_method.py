"""Runs of Ridge: scikit-learn's figures, every partition alike, sites lost on the way, wrong input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import RidgeClassifier

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.methods.ridge.features import Binned, Fourier
from fedgeom.protocols.plan import leaves
from fedgeom.testing import Check, check_method, parametrize_with_checks
from tests.methods.ridge.making import SHAPE, SMALL_CONV, blobs, images, pooled


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("features", ["linear", Fourier(n_components=40), ["linear", Binned(n_bins=2)]])
def test_a_secure_run_is_scikit_learns_ridge_on_the_pooled_features(features: object, balanced: bool) -> None:
    sites = blobs()
    run = fedgeom.run(fedgeom.Ridge(features=features, alpha=2.0, balanced=balanced), sites)  # type: ignore[arg-type]
    X, y = pooled(sites)
    F = run.model.features(X)
    counts = {label: float((y == label).sum()) for label in np.unique(y)}
    w = np.array([len(y) / (3 * counts[label]) if balanced else 1.0 for label in y])
    unit = np.sqrt((w[:, None] * F**2).sum(axis=0) / w.sum())
    unit[unit == 0] = 1
    theirs = RidgeClassifier(alpha=2.0, class_weight="balanced" if balanced else None).fit(F / unit, y)
    ours = run.model.weights[1:] * unit[:, None]
    assert np.abs(ours - theirs.coef_.T).max() < 1e-8 * np.abs(theirs.coef_).max()
    np.testing.assert_allclose(run.model.weights[0], theirs.intercept_, rtol=1e-8, atol=1e-9)


def test_the_ledger_says_what_is_revealed_and_metrics_what_was_chosen() -> None:
    run = fedgeom.run(fedgeom.Ridge(features="linear"), blobs())  # type: ignore[arg-type]
    assert run.metrics["features"] == 5
    assert run.metrics["rows"] == 120
    assert run.metrics["alpha"] == run.model.alpha
    told = {entry.kind for entry in run.ledger if not entry.reveals.startswith("nothing")}
    assert told == {"join.keys", "names.vocabulary", "sum.masked", "sum.shares"}
    assert any("hidden by the others' rows alone" in line for line in leaves(fedgeom.Ridge(features="linear")))


def test_probabilities_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 6000)
    X = rng.normal(size=(6000, 4)) + 0.8 * y[:, None] * [1, 0, 0, 0]
    sites = fedgeom.split(X[:4000], np.array(["no", "yes"])[y[:4000]], n_sites=3)
    p = fedgeom.run(fedgeom.Ridge(features="linear"), sites).model.predict_proba(X[4000:])[:, 1]
    for low, high in [(0.2, 0.4), (0.4, 0.6), (0.6, 0.8)]:
        inside = (p > low) & (p < high)
        assert abs(y[4000:][inside].mean() - p[inside].mean()) < 0.06


@pytest.mark.full
def test_large_sums_are_divided_and_a_site_lost_between_two_parts_is_in_none() -> None:
    method = fedgeom.Ridge(features=Fourier(n_components=30), classes=("left", "right"), max_sum_length=100)
    why = "the products of so many features span all that so few rows can"
    counts = check_method(method, skip={"no_sum_rests_on_few": why})
    assert counts["survives_dropout"] > 20  # every step of every part was tried


@pytest.mark.full
@parametrize_with_checks({"images": lambda: fedgeom.Ridge(features=SMALL_CONV, shape=SHAPE)}, images)
def test_it_keeps_the_contract_on_images(check: Check) -> None:
    check()


def test_folds_choose_alpha_too() -> None:
    sites = blobs(rows=60)
    run = fedgeom.run(fedgeom.Ridge(features="linear", alpha="folds"), sites)
    assert run.model.alpha == fedgeom.Ridge(features="linear", alpha="folds").plain(sites).model.alpha
    assert run.model.score(*pooled(sites)) > 0.85


def test_sites_need_not_have_every_class() -> None:
    X, y = pooled(blobs())
    alone = [SiteData(str(label), X[y == label], y[y == label]) for label in np.unique(y)]
    run, mixed = (
        fedgeom.run(fedgeom.Ridge(features="linear"), alone),
        fedgeom.run(fedgeom.Ridge(features="linear"), blobs()),
    )
    np.testing.assert_allclose(run.model.weights, mixed.model.weights, rtol=1e-6, atol=1e-8)


def test_wrong_input_is_refused_by_name() -> None:
    sites = blobs()
    with pytest.raises(InputError, match="missing everywhere: c7"):
        fedgeom.run(fedgeom.Ridge(features="linear", classes=("c0", "c1", "c2", "c7")), sites)
    with pytest.raises(InputError, match="labels outside the agreed classes: c2"):
        fedgeom.run(fedgeom.Ridge(features="linear", classes=("c0", "c1")), sites)
    with pytest.raises(InputError, match="25 cells, but rows have 5 columns"):
        fedgeom.run(fedgeom.Ridge(features="conv", shape=(5, 5, 1)), sites)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one class"):
        fedgeom.run(
            fedgeom.Ridge(features="linear"), [s.relabel(dict.fromkeys(("c0", "c1", "c2"), "a")) for s in sites]
        )


def test_fewer_rows_than_a_policy_asks_for_each_feature_are_refused() -> None:
    strict = fedgeom.Policy(min_rows_per_feature=2)
    with pytest.raises(InputError, match="min_rows_per_feature = 2, but all sites together have 120 rows"):
        fedgeom.run(fedgeom.Ridge(features=Fourier(n_components=100)), blobs(), policy=strict)
    fedgeom.run(fedgeom.Ridge(features=Fourier(n_components=60)), blobs(), policy=strict)
    with pytest.raises(InputError, match="120 rows in 2 folds for 60 features"):  # a fold has half the rows
        fedgeom.run(fedgeom.Ridge(features=Fourier(n_components=60), alpha="folds"), blobs(), policy=strict)
    fedgeom.run(fedgeom.Ridge(features=Fourier(n_components=30), alpha="folds"), blobs(), policy=strict)
    few = fedgeom.Policy(max_features=50)
    with pytest.raises(TooFewSitesError, match="max_features = 50, but there may be 60"):
        fedgeom.run(fedgeom.Ridge(features=Fourier(n_components=60)), blobs(), policy=few)


def test_parts_that_a_policy_does_not_let_through_are_refused_before_anything_is_sent() -> None:
    method, small = fedgeom.Ridge(features=Fourier(n_components=200)), fedgeom.Policy(max_message_bytes=100_000)
    asked: list[str] = []
    with pytest.raises(
        InputError, match=r"sites 's0', .* the limit is 100,000 .*: say max_sum_length = 4308 or less"
    ):
        fedgeom.run(method, blobs(), policy=small, interfere=lambda name, _: asked.append(name))
    assert not asked
    divided = fedgeom.Ridge(
        features=Fourier(n_components=200), max_sum_length=4308, classes=("c0", "c1", "c2"), max_features=200
    )
    assert fedgeom.run(divided, blobs(), policy=small).metrics["numbers"] == 201 * 202 // 2 + 201 * 3


def test_rare_classes_stay_at_home_where_policies_say_so() -> None:
    sites = blobs(rows=60)
    odd = SiteData("odd", sites[0].X[:12], np.array(["c0"] * 10 + ["rare"] * 2))
    run = fedgeom.run(
        fedgeom.Ridge(features="linear"), [*sites, odd], policy=fedgeom.Policy(single_site_classes=False)
    )
    assert run.model.names == ("c0", "c1", "c2")
    assert run.metrics["rows"] == 250
    assert run.local["odd"]["left out"] == ["rare"]


def test_images_stay_bytes_and_no_table_is_made_dense_in_double() -> None:
    sites = images()
    assert sites[0].table.dtype == np.uint8
    method = fedgeom.Ridge(features=SMALL_CONV, shape=SHAPE)
    run = fedgeom.run(method, sites)
    assert not any("X" in vars(site) for site in sites)
    wide = [SiteData(site.name, site.table.astype(np.float64), site.y) for site in sites]
    assert run.model.to_bytes() == fedgeom.run(method, wide).model.to_bytes()


def test_sparse_tables_give_the_same_model() -> None:
    sites = blobs()
    thin = [SiteData(site.name, csr_array(site.X), site.y) for site in sites]
    assert (
        fedgeom.run(fedgeom.Ridge(features="linear"), thin).model.to_bytes()
        == fedgeom.run(fedgeom.Ridge(features="linear"), sites).model.to_bytes()
    )

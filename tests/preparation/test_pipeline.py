"""Steps and a method, held to the contract of every method."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.methods import HOMES
from fedgeom.methods.catalogue import read_model
from fedgeom.preparation import PCA, Impute, LogCounts, OneHot, Pipeline, Scale, SelectVariable
from fedgeom.testing import check_method
from tests.preparation.raw import clinical, counts


def shown(rows=24):
    """Return small sites that the contract's tests can move about: numbers well above 0, and a code."""
    rng, found = np.random.default_rng(0), []
    for at in range(4):
        y = np.arange(rows) % 2
        X = np.column_stack([5 + 2 * y + rng.random(rows), 9 - y + rng.random(rows), rng.uniform(4, 5, rows)])
        found.append(SiteData(f"site-{at}", X, np.where(y, "ill", "well"), columns=("a", "b", "c")))
    return found


def whole_counts():
    """Return counts well above 0, so that they stay counts when the contract's tests move them."""
    return [replace(site, table=site.X + 5) for site in counts(rows=24, columns=20, sparse=False)]


PIPELINES = {
    "counts": (
        Pipeline(LogCounts(), SelectVariable(12), Scale(), PCA(4), fedgeom.Ridge(features="linear")),
        whole_counts(),
    ),
    "table": (Pipeline(OneHot(), Impute(), Scale(), fedgeom.Ridge(features="linear")), shown()),
    "median": (Pipeline(Impute(), Scale(), fedgeom.Moments(space="euclidean")), None),
}


@pytest.mark.full
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_keeps_the_contract(name):
    counted = check_method(*PIPELINES[name])
    assert counted["secure_equals_plain"] == 1
    assert counted["same_seed_same_model"] > 0


QUICK = {
    "n_rounds": 2,
    "epochs": 1,
    "space": "euclidean",
    "embedding": "discriminant",
    "hash_bits": 64,
    "hamming": "ot",
    "hidden_projection": False,
}
"""What makes a method quick, fit for tables, and the same every time, where it has such a setting."""


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(HOMES) - {"Regression", "PoincareMap"}))
def test_every_method_learns_from_raw_rows_what_it_learns_from_prepared_ones(name):
    """A regression's references are known to its preparation alone; cells of a map part at the last digit of a row."""
    if name in ("HyperFed", "XCLPTraining"):
        pytest.importorskip("torch")
    made, sites = getattr(fedgeom, name), clinical(rows=24)
    known = {one.name for one in fields(made)}
    method = made(prepare="table", **{key: value for key, value in QUICK.items() if key in known})
    run = fedgeom.run(method, sites)
    assert not run.lost
    steps = run.model.preparation
    ready = [SiteData(site.name, steps.rows(site), site.y) for site in sites]
    again = fedgeom.run(replace(method, prepare=()), ready)
    arrays, wanted = run.model.tensors()[0], again.model.tensors()[0]
    assert arrays.keys() == wanted.keys()
    for key, array in arrays.items():
        np.testing.assert_allclose(array, wanted[key], rtol=1e-4, atol=1e-5, err_msg=key)
    for site, rows in zip(sites, ready, strict=True):
        own, other = (one.model.for_site(one.local[site.name]) for one in (run, again))
        assert (own.predict(site) == other.predict(rows.X)).all()


def test_it_is_a_method_with_its_steps_as_a_setting():
    made = fedgeom.Pipeline(OneHot(), Impute(), Scale(), fedgeom.Ridge(features="linear"))
    assert isinstance(made, fedgeom.Method)
    assert made == fedgeom.Ridge(features="linear", prepare="table")
    assert type(made).from_terms(made.terms()) == made
    assert Pipeline(LogCounts(), replace(fedgeom.Ridge(features="linear"), prepare=[Scale()])).prepare == (
        LogCounts(),
        Scale(),
    )


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (Scale(),),
        (fedgeom.Ridge(features="linear"), fedgeom.Ridge(features="linear")),
        ("scale", fedgeom.Ridge(features="linear")),
    ],
)
def test_what_is_no_pipeline_is_refused(parts):
    with pytest.raises(InputError, match="wanted"):
        Pipeline(*parts)


@pytest.mark.parametrize(
    "wrong", ["count", ["scales"], [{"name": "pca", "parts": 3}], [{"name": "pca", "n_components": 0}]]
)
def test_what_is_no_preparation_is_refused(wrong):
    with pytest.raises(InputError, match=r"wanted|unknown|no setting"):
        fedgeom.Ridge(features="linear", prepare=wrong)


def test_a_model_from_raw_tables_takes_raw_tables():
    sites = clinical()
    run = fedgeom.run(fedgeom.Ridge(features="linear", prepare="table"), sites, holdout=0.25)
    again = read_model(run.model.to_bytes())
    assert (again.predict(sites[0]) == run.model.predict(sites[0])).all()
    assert run.evaluation["own"].accuracy.value > 0.6
    assert {"pooled", "local"} <= {score.model for score in run.evaluation.scores}
    plain = replace(fedgeom.Ridge(features="linear", prepare="table")).plain(run.train).model
    np.testing.assert_allclose(plain.predict_proba(sites[1]), run.model.predict_proba(sites[1]), atol=1e-6)


def test_models_kept_on_the_way_take_raw_rows_too(tmp_path):
    sites = clinical(rows=24)
    run = fedgeom.run(fedgeom.FedAvg(n_rounds=2, prepare="table"), sites, record=tmp_path)
    first, last = (fedgeom.load_model(tmp_path / "rounds" / f"000{at}.safetensors") for at in (1, 2))
    assert first.feature_names_in_.tolist() == run.model.feature_names_in_.tolist() == list(sites[0].columns)
    assert len(first.predict(sites[0])) == len(sites[0])
    np.testing.assert_array_equal(last.predict_proba(sites[1]), run.model.predict_proba(sites[1]))


def test_how_rows_are_spread_makes_no_difference():
    sites = counts()
    whole = [
        SiteData(
            "all", np.vstack([s.X for s in sites]), np.concatenate([s.y for s in sites]), columns=sites[0].columns
        )
    ]
    parts = [whole[0].take(np.arange(len(whole[0])) % 5 == i) for i in range(5)]
    parts = [replace(part, name=f"part-{i}") for i, part in enumerate(parts)]
    method = Pipeline(LogCounts(), SelectVariable(30), Scale(), PCA(5), fedgeom.Ridge(features="linear"))
    one, other = (fedgeom.run(method, some).model for some in (sites, parts))
    np.testing.assert_allclose(one.predict_proba(whole[0]), other.predict_proba(whole[0]), atol=1e-4)


def test_own_label_names_are_matched_behind_a_preparation():
    sites = []
    for at, site in enumerate(shown(40)):
        sites.append(site.relabel({"ill": f"ill-{at}", "well": f"well-{at}"}))
    run = fedgeom.run(fedgeom.Hulls(n_classes=2, embedding="discriminant", prepare="table"), sites)
    for site in sites:
        model = run.model.for_site(run.local[site.name])
        assert (model.predict(site) == site.y).mean() > 0.9


def test_strict_policies_hide_rare_categories_and_lose_nobody():
    sites = clinical(rows=60)
    policy = fedgeom.Policy(single_site_classes=False, min_sites=3, min_rows=10, min_rows_per_class=2)
    run = fedgeom.run(fedgeom.Ridge(features="linear", prepare="table"), sites, policy=policy)
    assert not run.lost
    words = run.model.preparation.raw.categories[3]
    assert set(words) == {"a", "b", "c"}  # the rarest of the others, empty cells, hides the few rows with "z"
    assert any("ward = z" in names for names in run.local["s0"]["prepared"].values() if isinstance(names, list))

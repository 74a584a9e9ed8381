"""Steps and a method, held to the contract of every method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
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


PIPELINES = {
    "table": Pipeline(OneHot(), Impute(), Scale(), fedgeom.Ridge()),
    "mean": Pipeline(Impute(strategy="mean"), Scale(), fedgeom.Moments(space="euclidean")),
    "counts": Pipeline(LogCounts(), SelectVariable(2), Scale(limit=5.0), PCA(2), fedgeom.Ridge()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_keeps_the_contract(name):
    counted = check_method(PIPELINES[name], shown())
    assert counted["plain twin"] == counted["engines"] == 1


def test_it_is_a_method_with_its_steps_as_a_setting():
    made = fedgeom.Pipeline(OneHot(), Impute(), Scale(), fedgeom.Ridge())
    assert isinstance(made, fedgeom.Method)
    assert made == fedgeom.Ridge(prepare="table")
    assert type(made).from_terms(made.terms()) == made
    assert Pipeline(LogCounts(), replace(fedgeom.Ridge(), prepare=[Scale()])).prepare == (LogCounts(), Scale())


@pytest.mark.parametrize("parts", [(), (Scale(),), (fedgeom.Ridge(), fedgeom.Ridge()), ("scale", fedgeom.Ridge())])
def test_what_is_no_pipeline_is_refused(parts):
    with pytest.raises(InputError, match="wanted"):
        Pipeline(*parts)


@pytest.mark.parametrize(
    "wrong", ["count", ["scales"], [{"name": "pca", "parts": 3}], [{"name": "pca", "components": 0}]]
)
def test_what_is_no_preparation_is_refused(wrong):
    with pytest.raises(InputError, match=r"wanted|unknown|no setting"):
        fedgeom.Ridge(prepare=wrong)


@pytest.mark.parametrize("engine", ["embedded", "flower-loopback"])
def test_a_model_from_raw_tables_takes_raw_tables_on_both_engines(engine):
    if engine != "embedded":
        pytest.importorskip("flwr")
    sites = clinical()
    run = fedgeom.run(fedgeom.Ridge(prepare="table"), sites, engine=engine, holdout=0.25)
    again = read_model(run.model.to_bytes())
    assert (again.predict(sites[0]) == run.model.predict(sites[0])).all()
    assert run.evaluation["own"].accuracy.value > 0.6
    assert {"pooled", "local"} <= {score.model for score in run.evaluation.scores}
    plain = replace(fedgeom.Ridge(prepare="table")).plain(run.train).model
    np.testing.assert_allclose(plain.predict_proba(sites[1]), run.model.predict_proba(sites[1]), atol=1e-6)


def test_how_rows_are_spread_makes_no_difference():
    sites = counts()
    whole = [
        SiteData(
            "all", np.vstack([s.X for s in sites]), np.concatenate([s.y for s in sites]), columns=sites[0].columns
        )
    ]
    parts = [whole[0].take(np.arange(len(whole[0])) % 5 == i) for i in range(5)]
    parts = [replace(part, name=f"part-{i}") for i, part in enumerate(parts)]
    method = Pipeline(LogCounts(), SelectVariable(30), Scale(), PCA(5), fedgeom.Ridge())
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
    run = fedgeom.run(fedgeom.Ridge(prepare="table"), sites, policy=policy)
    assert not run.lost
    words = run.model.preparation.raw.categories[3]
    assert set(words) == {"", "a", "b", "c"}
    assert any("ward = z" in names for names in run.local["s0"]["prepared"].values() if isinstance(names, list))

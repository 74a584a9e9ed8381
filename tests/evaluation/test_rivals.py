"""From a run to its figures, with pooled rows beside them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import fedgeom
from fedgeom.data.sets import load_set
from fedgeom.data.vocabularies import in_own_words
from fedgeom.evaluation.rivals import beside_pooled, class_titles, own_counts, pooled_tally
from fedgeom.testing.examples import example_sites


@pytest.fixture(scope="module")
def run() -> fedgeom.Run:
    return fedgeom.run(
        fedgeom.Moments(space="euclidean"), load_set("breast-cancer", test_share=0).train, holdout=0.3
    )


def test_all_figures_are_scikit_learns_on_the_rows_kept_aside(run):
    y = np.concatenate([one.y for one in run.test]).astype(str)
    X = np.vstack([one.X for one in run.test])
    own = run.evaluation["own"]
    assert own.rows == len(y)
    assert own.accuracy.value == accuracy_score(y, run.model.predict(X))
    exact = roc_auc_score(y == run.model.classes_[1], run.model.decision_function(X) @ [-1.0, 1.0])
    assert own.auc.value == pytest.approx(exact, abs=own.auc_error + 1e-9)
    train, names = (
        np.vstack([one.X for one in run.train]),
        np.concatenate([one.y for one in run.train]).astype(str),
    )
    scaler = StandardScaler().fit(train)
    whole = LogisticRegression(max_iter=200).fit(scaler.transform(train), names)
    pooled = run.evaluation["pooled"]
    assert pooled.accuracy.value == accuracy_score(y, whole.predict(scaler.transform(X)))
    assert pooled.auc.value == pytest.approx(
        roc_auc_score(y, whole.decision_function(scaler.transform(X))), abs=0.005
    )
    alone = 0
    for a, b in zip(run.train, run.test, strict=True):
        scaler = StandardScaler().fit(a.X)
        fitted = LogisticRegression(max_iter=200).fit(scaler.transform(a.X), a.y.astype(str))
        alone += (fitted.predict(scaler.transform(b.X)) == b.y.astype(str)).sum()
    assert run.evaluation["local"].accuracy.value == alone / len(y)


def test_every_site_has_its_figures(run):
    assert [one.site for one in run.evaluation.by_site] == [site.name for site in run.sites]
    for one, aside in zip(run.evaluation.by_site, run.test, strict=True):
        assert one.tested == len(aside)
        assert one.accuracy["own"] == np.mean(run.model.predict(aside.X) == aside.y.astype(str))
    assert own_counts({}) is None


def test_the_same_seed_gives_the_same_figures_and_another_other_rows(run):
    sites = run.sites
    again = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, holdout=0.3)
    assert again.evaluation == run.evaluation
    assert fedgeom.run(fedgeom.Moments(space="euclidean"), sites, seed=1, holdout=0.3).evaluation != run.evaluation


def test_pooling_needs_one_vocabulary():
    data, truth = in_own_words(load_set("breast-cancer", test_share=0))
    method = fedgeom.Hulls(embedding="discriminant", n_classes=2, holdout=0.3)
    run = fedgeom.run(method, data.train)
    assert "pooled" not in run.evaluation
    parts = list(zip(run.train, run.test, strict=True))
    found = beside_pooled(run.evaluation, pooled_tally(method, run.model, parts, run.local, truth))
    assert found["pooled"].accuracy.value > 0.9
    assert beside_pooled(found, pooled_tally(method, run.model, parts, run.local, truth)) == found
    titles = class_titles(run.model, run.local)
    assert titles == run.evaluation.classes
    assert titles[0].startswith("0 (")


def test_a_site_of_one_class_and_one_without_test_rows():
    sites = example_sites(rows=60)
    lone = sites[0].take(sites[0].y == "left")
    tiny = sites[1].take([0, 1, 2, 3])  # two of each class: all are learnt from
    run = fedgeom.run("moments", [lone, tiny, *sites[2:]], holdout=0.25)
    first, second = run.evaluation.by_site[:2]
    assert (first.tested, second.tested) == (8, 0)
    assert run.evaluation.sites == 3
    assert first.accuracy == {}  # fewer than ten rows


def test_without_a_holdout_there_are_no_figures():
    sites = example_sites()
    run = fedgeom.run("moments", sites)
    assert run.evaluation is None
    assert run.train == run.sites
    assert not any(map(len, run.test))


def test_limits_are_those_of_the_rows_that_are_learnt_from():
    """XCLP over pairs would be refused with all rows, and not with those that are left."""
    sites, method = example_sites(rows=80), fedgeom.XCLP(bits=512, hamming="ot")
    policy = fedgeom.Policy(max_message_bytes=8 * 2**20)
    with pytest.raises(fedgeom.InputError, match="max_message_bytes"):
        fedgeom.run(method, sites, policy=policy)
    run = fedgeom.run(method, sites, policy=policy, holdout=0.5)
    assert run.evaluation is not None
    assert "tested" in run._repr_html_()

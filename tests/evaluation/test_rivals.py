"""From a run to its figures, with pooled rows beside them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import fedgeom
from fedgeom.data.datasets import load_set
from fedgeom.data.demo_data import in_own_words
from fedgeom.evaluation.evaluation import beside_pooled, class_titles, matched_tally, own_counts, pooled_tally
from fedgeom.federation.holdout import Holdout
from fedgeom.testing.rehearsal import example_sites
from tests.methods.ptopofl.making import concepts


@pytest.fixture(scope="module")
def run() -> fedgeom.Run:
    return fedgeom.run(
        fedgeom.Moments(space="euclidean"), load_set("breast-cancer", test_share=0).train, holdout=0.3
    )


def test_rivals_may_be_left_out(run, monkeypatch):
    def trained(*_: object) -> None:
        raise AssertionError("a rival was trained")

    monkeypatch.setattr("fedgeom.protocols.evaluation.train_baseline", trained)
    monkeypatch.setattr("fedgeom.evaluation.evaluation.train_baseline", trained)
    for options in ({"holdout": 0.3, "rivals": False}, {"holdout": Holdout(0.3, rivals=False)}):
        sites = load_set("breast-cancer", test_share=0).train
        lean = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, **options)
        assert [one.model for one in lean.evaluation.scores] == ["majority", "own"]
        assert lean.evaluation["own"] == run.evaluation["own"]
        assert "each site alone" not in lean.verdict
    assert Holdout.read({"share": 0.3, "rivals": False}, "holdout").plain() == {
        "share": 0.3,
        "grouped": False,
        "rivals": False,
    }
    assert "rivals" not in Holdout(0.3).plain()


def test_all_figures_are_scikit_learns_on_the_rows_kept_aside(run):
    y = np.concatenate([one.y for one in run.test]).astype(str)
    X = np.vstack([one.X for one in run.test])
    own = run.evaluation["own"]
    assert own.rows == len(y)
    assert own.accuracy.value == accuracy_score(y, run.model.predict(X))
    exact = roc_auc_score(y == run.model.classes_[1], run.model.class_scores(X) @ [-1.0, 1.0])
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
    matched = run.evaluation["matched"]  # names are as the run matched them: all rightly here
    parts = list(zip(run.train, run.test, strict=True))
    found = beside_pooled(run.evaluation, pooled_tally(method, run.model, parts, run.local, truth))
    assert found["pooled"].accuracy.value > 0.9
    assert matched.accuracy == found["pooled"].accuracy
    assert "matched" not in found  # with the truth it is not needed
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
    sites, method = example_sites(rows=80), fedgeom.XCLP(hash_bits=512, hamming="ot")
    policy = fedgeom.Policy(max_message_bytes=8 * 2**20)
    with pytest.raises(fedgeom.InputError, match="max_message_bytes"):
        fedgeom.run(method, sites, policy=policy)
    run = fedgeom.run(method, sites, policy=policy, holdout=0.5)
    assert run.evaluation is not None
    assert "tested" in run._repr_html_()


def test_names_matched_wrongly_cost_pooled_rows_what_they_cost_the_federation():
    data, _ = in_own_words(load_set("breast-cancer", test_share=0))
    method = fedgeom.Hulls(embedding="discriminant", n_classes=2, holdout=0.3)
    run = fedgeom.run(method, data.train)
    parts = list(zip(run.train, run.test, strict=True))
    right = matched_tally(method, run.model, parts, run.local)
    first = run.sites[0].name
    turned = run.local | {
        first: run.local[first] | {"names": {w: 1 - g for w, g in run.local[first]["names"].items()}}
    }
    wrong = matched_tally(method, run.model, parts, turned)
    assert right.rows == wrong.rows == run.evaluation.rows
    assert wrong.right < right.right - len(run.test[0]) / 2
    assert matched_tally(method, run.model, parts, {}) is None


@pytest.mark.parametrize("method", [fedgeom.FedPer(n_rounds=2), fedgeom.LocalOnly()], ids=lambda one: one.name)
def test_it_is_said_where_there_is_no_joint_model_to_score(method):
    """The row was missing without a word."""
    run = fedgeom.run(method, example_sites(rows=40), holdout=0.25)
    assert "joint" not in run.evaluation
    assert "none that predicts by itself" in run.evaluation.unscored["joint"]
    assert fedgeom.run("moments", example_sites(rows=40), holdout=0.25).evaluation.unscored == {}


def test_the_consensus_of_clusters_is_scored_at_all_sites():
    """PTopoFL's joint model was not scored: sites were given their cluster's alone."""
    pytest.importorskip("gudhi")
    sites = concepts()
    settings = {
        "n_rounds": 4,
        "n_points": 20,
        "n_clusters": 2,
        "cluster_by": "updates",
        "secure": False,
        "trust": "none",
    }
    run = fedgeom.run(fedgeom.PTopoFL(**settings, beta=0.0), sites, holdout=0.25)
    right = sum(int((run.model.predict(one.X) == one.y).sum()) for one in run.test)
    assert run.evaluation["joint"].rows == run.evaluation.rows
    assert run.evaluation["joint"].accuracy.value == right / run.evaluation.rows
    assert run.evaluation["joint"].accuracy.value < run.evaluation["own"].accuracy.value - 0.2


def test_intervals_take_groups_as_drawn_one_by_one_where_rows_are_kept_aside_by_them():
    """Thirty rows of a patient are not thirty patients: the interval was that of independent rows."""
    rng = np.random.default_rng(0)
    sites = []
    for name in "abcd":
        patient = np.repeat(np.arange(16), 30)
        moved = rng.normal(size=(16, 2))[patient]  # all rows of a patient are off alike
        ill = patient % 2
        X = moved + 0.1 * rng.normal(size=(480, 2)) + ill[:, None]
        sites.append(fedgeom.SiteData(name, X, np.where(ill, "ill", "well"), groups=patient))
    method = fedgeom.Moments(space="euclidean")
    by_patient = fedgeom.run(method, sites, holdout=Holdout(0.25, grouped=True)).evaluation
    plain = fedgeom.run(
        method, sites, holdout=Holdout(0.25)
    ).evaluation  # groups are heeded, intervals are not by them
    assert by_patient.confusion == plain.confusion
    assert by_patient.groups == 16
    assert plain.groups == 0
    for name in ("accuracy", "balanced_accuracy", "auc"):
        narrow, wide = (getattr(one["own"], name) for one in (plain, by_patient))
        assert wide.value == narrow.value
        assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
    for one in ("majority", "pooled", "local"):
        assert (
            by_patient[one].accuracy.high - by_patient[one].accuracy.low
            > plain[one].accuracy.high - plain[one].accuracy.low
        )

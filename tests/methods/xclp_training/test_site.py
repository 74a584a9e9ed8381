"""A site embeds what all embed, in the round that is drawn for it, and trains on labels, own ones and found ones."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.federation.messages import Array
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.site import LAST
from fedgeom.methods.xclp.anchors import ReadModel, SumUnitRows
from fedgeom.methods.xclp.messages import BeginComparison, CountLabels, Weigh
from fedgeom.methods.xclp_training.site import Embed, XclpTrainingSite
from tests.methods.coordinators import fresh, hold, lie, refusals, stamped
from tests.methods.xclp_training.making import ANCHORS, PAIRS, quick, sites, without_labels

replace = msgspec.structs.replace


def other_model(given):
    path, leaf = next((p, v) for p, v in given.items() if isinstance(v, Array))
    return given | {path: Array.of(1.0 + leaf.numpy())}


def test_the_sums_are_planned_round_by_round():
    kinds = [question.kind for question in XclpTrainingSite.all_sums(quick())]
    propagation = ["xclp.mean", *["xclp.cell-counts", "xclp.cell-sums"] * 2, "xclp.codes", "xclp.label-counts"]
    spread = [*propagation, "train.masked"]
    assert kinds == ["names.count", "prepare.floors", "train.columns", "train.masked", *spread, *spread]
    assert len(XclpTrainingSite.all_sums(quick(labels="none", scale="none"))) == 2 + 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda ask: replace(ask, round=0), "no labels spread in round 1"),
        (lambda ask: replace(ask, round=7), "no labels spread in round 8"),
        (lambda ask: replace(ask, agreed=bytes(32)), "other classes or another scale"),
        (lambda ask: replace(ask, given={}), "does not fit the model"),
    ],
)
def test_a_model_out_of_place_is_not_embedded(change, says):
    assert all(says in reason for reason in refusals(quick(), sites(), Embed, change))


def test_a_site_that_is_not_drawn_embeds_nothing():
    data = sites(8)
    method = quick(participation=0.5)
    drawn = method.drawn([s.name for s in data], 0, 1)
    (outside, *_) = [s.name for s in data if s.name not in drawn]
    held = hold(quick(participation=0.5), data)
    ask = next(
        Embed(round=1, given=given, agreed=held.site(outside).memory.agreement.told)
        for given in [held.site(drawn[0]).memory.under_way.given]
    )
    with pytest.raises(fedgeom.FedgeomError, match="not drawn for round 2"):
        held.site(outside).answer(ask)


def test_features_of_another_model_are_in_no_sum_with_the_others():
    """A coordinator that gives one site a model of its own finds that the site refuses the sum, whatever it says."""
    found = lie(quick(), sites(), Embed, lambda ask: replace(ask, given=other_model(ask.given)), to="site-2")
    assert found[0] == ("site-2", None)  # nothing has left yet
    said = refusals(quick(), sites(), SumUnitRows, lambda ask: stamped(ask, features=bytes(32)))
    assert all("features of another model" in reason for reason in said)
    said = refusals(quick(), sites(), SumUnitRows, lambda ask: stamped(ask, features=None))
    assert all("features of another model" in reason for reason in said)


def test_the_model_that_is_trained_is_the_one_whose_features_were_compared():
    def change(ask):
        return stamped(ask, given=other_model(ask.given)) if ask.round == 1 else None

    assert all("not the one whose features" in one for one in refusals(quick(), sites(), TrainMasked, change))


@pytest.mark.parametrize("kind", [ReadModel, CountLabels, Weigh])
def test_questions_of_another_round_are_refused(kind):
    def change(ask):
        return stamped(ask, round=0) if kind is CountLabels else replace(ask, round=0)

    assert all("not under way here" in reason for reason in refusals(quick(), sites(), kind, change))


def test_letters_of_another_model_cannot_be_opened():
    pytest.importorskip("seal", reason="needs seal-python")
    said = refusals(quick(labels=PAIRS), sites(3, rows=10), BeginComparison, lambda ask: replace(ask, round=2))
    assert all("not under way here" in reason for reason in said)


def test_labelled_rows_keep_their_label_and_weight_and_pseudo_labels_theirs():
    data = sites()
    held = hold(quick(), data, seed=1)
    site = held.site(data[0].name)
    known, found = site.known(), site.pseudo()
    task = site.task(2, 0.1)
    own = known >= 0
    used = own | (found.weights > 0)
    np.testing.assert_array_equal(task.y, np.where(own, known, found.codes)[used])
    np.testing.assert_array_equal(task.row_weights, np.where(own, 1.0, found.weights)[used])
    np.testing.assert_array_equal(task.effort.labelled, own[used])
    warm = site.task(0, 0.1)
    assert warm.rows == own.sum()
    assert warm.row_weights is None
    assert site.task(LAST, 0.1).rows == task.rows


def test_rows_that_watch_the_loss_are_labelled_and_their_labels_spread_nowhere():
    data = sites(labelled=0.6)
    held = hold(quick(validation_fraction=0.3), data, seed=1)
    for one in data:
        site = held.site(one.name)
        aside = site.rows_aside()
        assert (site.known()[aside] >= 0).all()
        assert aside.sum() == int(0.3 * (site.known() >= 0).sum())
        assert (site.table.y[aside] == "").all()
        assert site.task(2, 0.1, ~aside).rows <= (~aside).sum()
        assert site.task(2, 0.1, aside).y.tolist() == site.known()[aside].tolist()
    run = fedgeom.run(quick(validation_fraction=0.3, patience=2), data, seed=1)
    assert run.metrics["loss on rows set aside"]


def test_sites_may_be_unlabelled_labelled_or_tiny():
    data = sites(5, labelled=0.6)
    data[0], data[1] = without_labels(data[0]), data[1].take([0])
    data[2] = sites(5, labelled=1.0)[2]
    for labels in (ANCHORS, "site", "network", "none"):
        run = fedgeom.run(quick(labels=labels), data, seed=2)
        assert not run.lost
        truth = np.concatenate([s.extra["truth"] for s in data])
        assert np.mean(run.model.predict(np.vstack([s.X for s in data])) == truth) > 0.85


def test_the_floors_of_anchors_hold_in_every_round():
    data = sites(4, rows=60)
    strict = Policy(single_site_classes=False, min_sites=3, min_rows=12)
    held = hold(quick(), data, policy=strict)
    site = held.site(data[0].name)
    assert site.anchors.plan.min_cell == 12
    assert site.anchors.plan.min_sites == 3


def test_a_step_smaller_than_the_policy_allows_is_not_taken():
    data = sites(4)
    data[0] = without_labels(data[0], slice(2, None))
    run = fedgeom.run(quick(labels="none"), data, policy=Policy(min_batch_size=4))
    assert not run.lost
    site = fresh(quick(), data[0])
    assert sum(site.label_counts().values()) <= 2

"""The conversation: secure = open = plain = one loop bit for bit, lost sites, sampling, early stopping, the ledger."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, PTopoFL, Scaffold
from fedgeom.errors import TooFewSitesError
from fedgeom.methods.iterative import Decay, Tree
from fedgeom.methods.iterative.site import set_aside
from fedgeom.methods.iterative.training import Group
from tests.methods.iterative.asking import prepared
from tests.methods.iterative.making import ALGORITHMS, BOWLS, algorithm_class, bowls, losing, own, unlike, whole
from tests.methods.iterative.simulation import simulate

SITES = unlike(n_sites=4)
SHORT = {"n_rounds": 2, "epochs": 1, "batch_size": 5}
OPTIONS = {"pfedme": {"local_rounds": 2, "inner_steps": 2}}


@pytest.mark.parametrize(
    "name", sorted(set(ALGORITHMS) - {"apple"})
)  # it runs in the open only, by a loop of its own
def test_secure_and_open_and_plain_and_one_loop_agree_bit_for_bit(name):
    options = SHORT | OPTIONS.get(name, {})
    secure = fedgeom.run(algorithm_class(name)(**options), SITES, seed=3)
    shown = fedgeom.run(algorithm_class(name)(secure=False, **options), SITES, seed=3)
    plain = algorithm_class(name)(**options).plain(SITES, seed=3)
    twin = simulate(algorithm_class(name)(**options), SITES, 3)
    assert secure.model.to_bytes() == shown.model.to_bytes() == plain.model.to_bytes() == twin.model.to_bytes()
    for site in SITES:
        mine = own(secure, site.name)
        for found in (shown, plain, twin):
            assert (own(found, site.name) == mine).all()
    assert secure.lost == shown.lost == {}


@pytest.mark.parametrize("scale", ["joint", "site", "none"])
@pytest.mark.parametrize("classes", [2, 3])
def test_scales_and_numbers_of_classes(scale, classes):
    sites = unlike(classes=classes)
    run = fedgeom.run(FedAvg(scale=scale, **SHORT), sites)
    assert run.model.to_bytes() == simulate(FedAvg(scale=scale, **SHORT), sites).model.to_bytes()
    mine = run.model.for_site(run.local["s1"])
    assert mine.predict(sites[1].X).shape == (len(sites[1]),)
    if scale == "site":
        assert mine.centre == pytest.approx(sites[1].X.mean(axis=0))
        assert not run.model.everywhere
    if scale == "joint":
        rows = np.vstack([site.X for site in sites])
        assert run.model.centre == pytest.approx(rows.mean(axis=0), abs=1e-5)
        assert run.model.spread == pytest.approx(rows.std(axis=0), abs=1e-5)


@pytest.mark.parametrize("aggregation", ["median", "trimmed", "krum", "geometric"])
def test_robust_aggregations_run_in_the_open(aggregation):
    row = FedAvg(aggregation=aggregation, **SHORT)
    run = fedgeom.run(row, SITES)
    assert not row.masked
    assert run.model.to_bytes() == simulate(row, SITES).model.to_bytes()


def test_a_constant_column_is_left_alone():
    sites = [fedgeom.SiteData(s.name, np.column_stack([s.X, np.full(len(s), 1e4)]), s.y) for s in SITES]
    run = fedgeom.run(FedAvg(**SHORT), sites)
    assert run.model.spread[2] == 1.0
    assert np.isfinite(run.model.predict_proba(sites[0].X)).all()


# Lost sites.


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("round", [0, 1, 2])
def test_a_site_lost_in_one_round_is_back_in_the_next(secure, round):
    """The round goes on with the others: checked against averaging by hand on bowls of one row."""
    sites = bowls((10, 1), (2, 1), (6, 1), (-4, 1))
    row = FedAvg(n_rounds=3, learning_rate=0.1, secure=secure, **BOWLS)
    kind = b"train.masked" if secure else b"train.open"
    run = fedgeom.run(row, sites, interfere=losing({"s1": {round}}, kind))
    w = 0.0
    for at in range(3):
        moved = [w - 0.1 * (w - a) for k, a in enumerate((10, 2, 6, -4)) if not (at == round and k == 1)]
        w = sum(moved) / len(moved)
    assert whole(run.model) == pytest.approx([w], abs=1e-7)
    assert "s1" in run.local  # it was there for the last model
    if round == 2:  # no further round, in which it could come back
        assert run.lost == {"s1": "lost on purpose"}
        return
    assert not run.lost
    assert set(run.returned) == {"s1"}
    assert kind.decode() in run.returned["s1"]
    assert "lost on purpose" in run.returned["s1"]
    assert [one.site for one in run.warnings if "was away for a while" in one.what] == ["s1"]


@pytest.mark.parametrize("kind", [b"sum.confirm", b"sum.unmask"])
def test_a_site_lost_while_a_sum_is_unmasked_does_no_harm(kind):
    run = fedgeom.run(FedAvg(**SHORT), SITES, interfere=losing({"s2": {1}}, kind))
    assert run.model.to_bytes() == fedgeom.run(FedAvg(**SHORT), SITES).model.to_bytes()


@pytest.mark.parametrize("secure", [True, False])
def test_a_site_that_stays_away_is_not_asked_for_ever(secure):
    kind = b"train.masked" if secure else b"train.open"
    asked = []

    def gone(site, request):
        if kind in request and site == "s3":
            asked.append(site)
            return "gone"
        return None

    run = fedgeom.run(FedAvg(n_rounds=6, epochs=1, secure=secure), SITES, interfere=gone)
    assert len(asked) == 2
    assert run.lost == {"s3": "gone"}


@pytest.mark.parametrize("secure", [True, False])
def test_too_few_sites(secure):
    lost = {name: {1} for name in ("s1", "s2", "s3")}
    kind = b"train.masked" if secure else b"train.open"
    with pytest.raises(TooFewSitesError, match=r"(?s)1 sites .*2 are needed; missing.*s1: lost on purpose"):
        fedgeom.run(FedAvg(secure=secure, **SHORT), SITES, interfere=losing(lost, kind))


def test_fewer_sites_than_the_policy_wants():
    with pytest.raises(TooFewSitesError, match="the policy of 's0' asks for at least 3"):
        fedgeom.run(FedAvg(**SHORT), SITES[:2])
    policy = fedgeom.Policy(min_cohort=2)
    assert fedgeom.run(FedAvg(**SHORT), SITES[:2], policy=policy).model.names == ("class 0", "class 1")


def test_training_that_diverges_says_so():
    sites = bowls((1e6, 50), (-1e6, 50), (3e6, 50))
    with pytest.raises(TooFewSitesError, match="a lower rate helps if training diverged"):
        fedgeom.run(FedAvg(learning_rate=10.0, n_rounds=30, secure=False, bits=64, **BOWLS), sites)


# A share of the sites in each round.


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_share_of_the_sites_trains(secure, share):
    sites = unlike(n_sites=9, rows=6)
    row = FedAvg(n_rounds=3, epochs=1, participation=share, min_sites=3, secure=secure)
    first, again = fedgeom.run(row, sites, seed=5), fedgeom.run(row, sites, seed=5)
    other = fedgeom.run(row, sites, seed=6)
    assert first.model.to_bytes() == again.model.to_bytes() != other.model.to_bytes()
    if not secure:
        asked = [entry.step for entry in first.ledger if entry.kind == "train.update"]
        assert [asked.count(step) for step in sorted(set(asked))] == [max(3, math.ceil(share * 9))] * 3


def test_sampled_rounds_are_the_same_masked_and_open():
    """In a secure round the sites that were not drawn are witnesses: without them nobody could unmask the sum."""
    sites = unlike(n_sites=7, rows=6)
    models = [
        fedgeom.run(Scaffold(participation=0.4, secure=secure, min_sites=3, **SHORT), sites).model.to_bytes()
        for secure in (True, False)
    ]
    assert models[0] == models[1]


def test_witnesses_do_not_count_as_sites():
    """Of three that train among seven two are lost: the sum would be the third's own model, and is not unmasked."""
    sites = unlike(n_sites=7, rows=6)
    row = FedAvg(participation=0.4, min_sites=3, **SHORT)
    drawn = next(iter_drawn(row, sites))
    assert len(drawn) == 3
    kind = losing({name: {0} for name in drawn[:2]}, b"train.masked")
    with pytest.raises(TooFewSitesError, match="1 sites answered with their masked vectors, 3 are needed"):
        fedgeom.run(row, sites, interfere=kind)


def test_a_coordinator_cannot_choose_who_trains():
    """The draw follows from the seed and the round; others than those drawn are refused, fewer are not."""
    row = FedAvg(participation=0.5, min_sites=3, **SHORT)
    talk, _, _ = prepared(row, unlike(n_sites=8, rows=6))
    drawn = talk.chosen(0)
    assert drawn == row.drawn(talk.cohort.names, 0, 0)
    start = Tree(model=Tree(intercept=np.zeros(1), weights=np.zeros((2, 1))))
    talk.sent = Tree(row.sent_like(start["model"]))
    outsider = next(name for name in talk.members if name not in drawn)
    wished = tuple(sorted((*drawn[1:], outsider)))
    with pytest.raises(TooFewSitesError, match=f"{outsider} cannot be in this sum"):
        talk._masked(0, Group(wished, start))
    with pytest.raises(TooFewSitesError, match="cannot be in this sum"):
        talk._masked(0, Group(drawn, start))  # by the sum that is left, which is the next round's
    again, _, _ = prepared(row, unlike(n_sites=8, rows=6))
    again.sent = talk.sent
    assert again._masked(0, Group(drawn[1:], start)).sites == drawn[1:]


def test_a_site_that_is_lost_is_not_replaced_in_the_draw():
    sites = unlike(n_sites=8, rows=6)
    row = FedAvg(participation=0.5, min_sites=3, n_rounds=6, epochs=1)
    drawn = list(iter_drawn(row, sites))
    lost = drawn[0][0]

    def away(name, request):
        return "gone" if name == lost and b"train.masked" in request else None

    gone = fedgeom.run(row, sites, interfere=away)
    came = [
        [entry.site for entry in gone.ledger if entry.step == step]
        for step in sorted({entry.step for entry in gone.ledger if entry.kind == "sum.masked"})
    ][1:]  # the first sum is that of the columns
    assert came == [[name for name in names if name != lost] for names in drawn]


def test_a_round_is_left_out_for_which_too_few_of_those_drawn_are_there():
    """Two of eight stay away, so that in some rounds three were drawn of whom one or two are left: nobody trains."""
    sites = unlike(n_sites=8, rows=6)
    row = FedAvg(participation=0.3, min_sites=3, n_rounds=12, epochs=1)
    drawn = list(iter_drawn(row, sites))
    lost = [name for name in drawn[0] if name not in drawn[1]][:1]
    assert lost, "the first two draws are the same: take another seed"
    short = [names for names in drawn if set(names) & set(lost)]
    assert len(short) > 1
    talk, _, _ = prepared(row, sites)
    talk.strikes = dict.fromkeys(lost, 2)
    start = Tree(model=Tree(intercept=np.zeros(1), weights=np.zeros((2, 1))))
    talk.sent, talk.statistics = Tree(row.sent_like(start["model"])), ()
    state, moved = start, []
    for number in range(row.n_rounds):
        new, _ = talk.round(number, state)
        moved.append(new is not state)
        state = new
    assert moved == [not set(names) & set(lost) for names in drawn]


def iter_drawn(row, sites):
    """Yield the sites that an open run of the same settings draws in each round."""
    run = fedgeom.run(FedAvg(**(row.terms() | {"secure": False})), sites)
    steps = sorted({entry.step for entry in run.ledger if entry.kind == "train.update"})
    for step in steps:
        yield [entry.site for entry in run.ledger if entry.step == step]


# Rows set aside, and stopping.


def test_loss_on_rows_set_aside_falls_and_is_the_same_masked_and_open():
    sites = unlike(rows=40)
    losses = [
        fedgeom.run(FedAvg(n_rounds=4, validation_fraction=0.25, secure=secure), sites).metrics[
            "loss on rows set aside"
        ]
        for secure in (True, False)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert losses[0][0] == pytest.approx(math.log(2))  # an untrained model tosses a coin
    assert losses[0][3] < losses[0][0]


def test_no_penalty_belongs_to_rows_set_aside(tmp_path):
    """The loss is the mean negative log-likelihood of those rows under the model of the round before."""
    run = fedgeom.run(FedAvg(n_rounds=2, validation_fraction=0.25, C=0.01), SITES, record=tmp_path / "run")
    model = fedgeom.load_model(tmp_path / "run" / "rounds" / "0001.safetensors")
    chances = []
    for site in SITES:
        rows = site.take(set_aside(len(site), 0.25, 0, site.name))
        at = [model.names.index(label) for label in rows.y]
        chances += model.predict_proba(rows.X)[np.arange(len(at)), at].tolist()
    assert run.metrics["loss on rows set aside"][1] == pytest.approx(-np.log(chances).mean(), abs=1e-6)


def test_stopping_keeps_the_best_model(tmp_path):
    """A rate that makes things worse after the second round: the model is that of the round with the least loss."""
    sites = unlike(n_sites=3, rows=12, columns=8, seed=2)
    row = FedAvg(
        n_rounds=60, epochs=20, learning_rate=2.0, C=1e6, validation_fraction=0.3, patience=3, secure=False
    )
    run = fedgeom.run(row, sites, record=tmp_path / "run")
    losses = run.metrics["loss on rows set aside"]
    best = int(np.argmin(losses))
    assert len(losses) == best + 1 + 3 < 60
    if best:
        kept = fedgeom.load_model(tmp_path / "run" / "rounds" / f"{best:04d}.safetensors")
        assert kept.to_bytes() == run.model.to_bytes()
    assert fedgeom.run(row, sites).model.to_bytes() == run.model.to_bytes()


def test_too_few_rows_to_set_aside_do_not_stop_the_training():
    row = FedAvg(n_rounds=3, validation_fraction=0.05, patience=1)
    run = fedgeom.run(row, SITES)  # 12 rows: nothing is set aside at some sites, or at all
    assert whole(run.model).any()
    tiny = [site.take(range(6)) for site in SITES]
    run = fedgeom.run(row, tiny)
    assert "loss on rows set aside" not in run.metrics
    assert run.model.to_bytes() == fedgeom.run(FedAvg(n_rounds=3), tiny).model.to_bytes()


def test_schedules_reach_the_sites():
    sites = bowls((10, 1), (10, 1), (10, 1))
    run = fedgeom.run(FedAvg(n_rounds=2, learning_rate=0.2, schedule=Decay(0.5), **BOWLS), sites)
    assert whole(run.model) == pytest.approx([2 + 0.1 * 8], abs=1e-7)
    run = fedgeom.run(FedAvg(n_rounds=2, learning_rate=0.2, schedule="cosine", **BOWLS), sites)
    assert whole(run.model) == pytest.approx([2 + 0.1 * 8], abs=1e-7)  # cos(π/2) = 0: half the rate


# The ledger and the record.


def test_the_ledger_tells_masked_from_open():
    secure, shown = (fedgeom.run(FedAvg(secure=secure, **SHORT), SITES) for secure in (True, False))
    said = {entry.reveals for entry in secure.ledger if entry.kind == "sum.masked"}
    assert any(
        line.startswith("masked; with all others of the group: the weighted sum of trained") for line in said
    )
    assert "train.update" not in {entry.kind for entry in secure.ledger}
    updates = [entry for entry in shown.ledger if entry.kind == "train.update"]
    assert len(updates) == 2 * len(SITES)
    assert all("this site's trained parameters" in entry.reveals for entry in updates)
    for run in (secure, shown):  # a personal model never leaves
        assert {e.reveals for e in run.ledger if e.kind == "train.finished"} == {
            "nothing: a receipt; a personal model stays at the site"
        }


def test_rounds_are_kept_in_the_record(tmp_path):
    run = fedgeom.run(FedAvg(**SHORT), SITES, record=tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run" / "rounds").iterdir())
    assert kept == ["0001.safetensors", "0002.safetensors"]
    last = fedgeom.load_model(tmp_path / "run" / "rounds" / "0002.safetensors")
    assert last.to_bytes() == run.model.to_bytes() == (tmp_path / "run" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedper", "local", "interpolated"])
def test_each_site_finds_its_own_model_in_the_record(name, tmp_path):
    run = fedgeom.run(algorithm_class(name)(**SHORT), SITES, record=tmp_path / "run")
    for site in SITES:
        model = fedgeom.load_model(tmp_path / "run" / "sites" / f"{site.name}.safetensors")
        assert (whole(model) == own(run, site.name)).all()
        assert (model.predict(site.X) == run.model.for_site(run.local[site.name]).predict(site.X)).all()


def test_metrics():
    run = fedgeom.run(FedAvg(**SHORT), SITES)
    assert {name: run.metrics[name] for name in ("sites", "classes", "numbers")} == {
        "sites": 4,
        "classes": 2,
        "numbers": 3,
    }


@pytest.mark.parametrize(
    "row",
    [
        FedAvg(participation=0.05, min_sites=3, n_rounds=6, steps=1),
        PTopoFL(n_clusters=12, closeness=False, trust="none", n_points=6, n_rounds=1, steps=1),
    ],
)
def test_few_of_many_sites_are_summed_and_none_is_lost(row):
    """Above 48 sites masks are shared with some only: three sites drawn of sixty must share them all the same."""
    rng = np.random.default_rng(0)
    sites = [fedgeom.SiteData(f"s{at:02d}", rng.normal(size=(6, 2)), ["a", "b"] * 3) for at in range(60)]
    run = fedgeom.run(row, sites)
    assert not run.lost

"""Labels spread in the rounds that the terms say, over the sites of the round; losses and resting are borne."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.federation.messages import unpack
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.xclp.anchors import SumUnitRows
from fedgeom.methods.xclp_training.site import Embed
from tests.methods.coordinators import overhear
from tests.methods.xclp_training.making import quick, right, sites, without_labels


def test_labels_spread_in_their_rounds_over_the_sites_that_train():
    data = sites(8)
    method = quick(
        n_rounds=5,
        warmup_rounds=1,
        relabel_every=2,
        participation=0.5,
        labelled_sites=tuple(s.name for s in data[:4]),
    )
    heard, _ = overhear(method, data, seed=3)
    rounds: dict[int, set[str]] = {}
    trained: dict[int, set[str]] = {}
    for one in heard:
        if isinstance(one.question, Embed):
            rounds.setdefault(one.question.round, set()).add(one.name)
        if isinstance(one.question, TrainMasked):
            trained.setdefault(one.question.round, set()).add(one.name)
    assert set(rounds) == {1, 3}
    assert set(trained) == set(range(5))
    for number, names in trained.items():
        assert names == set(method.drawn([s.name for s in data], 3, number))
        assert rounds.get(number, names) == names
    stamps = {one.question.features for one in heard if isinstance(one.question, SumUnitRows)}
    assert len(stamps) == 2


def test_where_no_site_drawn_has_a_label_the_round_has_no_pseudo_labels():
    data = [site if at < 2 else without_labels(site) for at, site in enumerate(sites(8, labelled=0.6))]
    method = quick(n_rounds=6, warmup_rounds=1, participation=0.375, weights="sites")
    names = [site.name for site in data]
    known = [{*names[:2]} & set(method.drawn(names, 4, r)) for r in range(6)]
    assert any(known)
    assert not all(known[1:])
    run = fedgeom.run(method, data, seed=4)
    figures = run.metrics["labels spread"]
    assert [one["round"] - 1 for one in figures if one.get("labelled") == 0] == [
        r for r in range(1, 6) if not known[r]
    ]
    assert np.isfinite(run.model.parameters.flat()).all()


@pytest.mark.parametrize("secure", [True, False])
def test_without_a_row_to_train_on_the_model_stays_as_it_was(secure):
    """Two of six sites have labels; in a round of others nothing changes, and nobody is lost over it."""
    data = [site if at < 2 else without_labels(site) for at, site in enumerate(sites(8, labelled=0.6))]
    names = [site.name for site in data]
    seed = next(
        seed
        for seed in range(100)
        if not {*names[:2]} & set(quick(participation=0.375).drawn(names, seed, 0))
        and {*names[:2]} & set(quick(participation=0.375).drawn(names, seed, 1))
    )
    run = fedgeom.run(
        quick(n_rounds=1, warmup_rounds=0, labels="none", participation=0.375, secure=secure), data, seed=seed
    )
    assert not run.model.parameters.flat().any()  # a logistic regression begins with zeros
    more = fedgeom.run(
        quick(n_rounds=2, warmup_rounds=0, labels="none", participation=0.375, secure=secure), data, seed=seed
    )
    assert more.model.parameters.flat().any()
    assert not more.lost


@pytest.mark.parametrize("step", ["semi.embed", "xclp.mean", "xclp.cell-counts", "xclp.codes", "xclp.read-model"])
def test_a_site_lost_while_labels_spread_costs_no_model(step):
    data, seen = sites(5), []

    def interfere(name: str, request: bytes) -> str | None:
        if name != data[1].name:
            return None
        seen.append(unpack(request).kind)
        return "the process was killed" if step in seen else None

    run = fedgeom.run(quick(), data, interfere=interfere)
    assert set(run.lost) == {data[1].name}
    assert right(run.model, data) > 0.9


def test_the_ledger_says_what_left_in_each_round():
    run = fedgeom.run(quick(), sites())
    told = [entry.reveals for entry in run.ledger if entry.site == "site-1" or entry.site == sites()[0].name]
    assert sum("centres of clusters of rows, or of their features" in one for one in told) == 2 * 2
    assert sum("of their features where a network is trained" in one for one in told) == 2
    assert not any("angles" in one for one in told)

"""pTopoFL: what leaves the sites, lost sites, and what it is without its parts."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, PTopoFL, SiteData
from tests.methods.ptopofl.making import hospitals, vector

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


def test_masked_is_open_where_clusters_are_large_enough() -> None:
    sites = hospitals(n=8)
    settings = {"n_rounds": 3, "n_clusters": 2, "seed": 2}
    seed = settings.pop("seed")
    masked = fedgeom.run(PTopoFL(**settings), sites, seed=seed)  # type: ignore[arg-type]
    opened = fedgeom.run(PTopoFL(**settings, secure=False), sites, seed=seed)  # type: ignore[arg-type]
    if min(np.unique(list(opened.metrics["clusters"].values()), return_counts=True)[1]) < 3:
        assert masked.metrics["clusters"] != opened.metrics["clusters"]
    else:
        assert masked.model.to_bytes() == opened.model.to_bytes()


def test_one_cluster_without_trust_and_closeness_is_fedavg() -> None:
    sites = hospitals()
    ours = fedgeom.run(PTopoFL(n_rounds=4, cluster_by="none", trust="none", closeness=False), sites, seed=1)
    theirs = fedgeom.run(FedAvg(n_rounds=4), sites, seed=1)
    for name, array in theirs.model.parameters.items():
        assert np.array_equal(ours.model.parameters[name], array)
    assert not any(entry.kind.startswith("topo.") for entry in ours.ledger)


def test_the_ledger_says_that_descriptor_and_model_are_sent() -> None:
    opened = fedgeom.run(PTopoFL.published(n_rounds=2), hospitals())
    shown = {entry.kind: entry.reveals for entry in opened.ledger}
    assert "shape of this site's rows" in shown["topo.description"]
    assert "trained parameters" in shown["train.update"]
    masked = fedgeom.run(PTopoFL(n_rounds=2), hospitals())
    assert "train.update" not in {entry.kind for entry in masked.ledger}
    private = fedgeom.run(PTopoFL(n_rounds=1, epsilon=1.0), hospitals())
    assert any("differentially private" in entry.reveals for entry in private.ledger)


@pytest.mark.parametrize("lost", ["h0", "h3", "h5"])
@pytest.mark.parametrize("step", ["topo.describe", "train.masked", "sum.confirm"])
def test_a_site_may_be_lost_at_any_step(lost: str, step: str) -> None:
    def lose(name: str, request: bytes) -> str | None:
        return "power cut" if name == lost and step.encode() in request else None

    run = fedgeom.run(PTopoFL(n_rounds=2), hospitals(), interfere=lose)
    assert lost in run.lost
    assert np.isfinite(run.model.predict_proba(hospitals()[0].X)).all()


def test_tiny_sites_take_part() -> None:
    sites = [*hospitals(n=4), SiteData("tiny", np.ones((1, 4)), np.array(["sick"]))]
    run = fedgeom.run(PTopoFL(n_rounds=2), sites)
    assert not run.lost
    assert math.isfinite(float(vector(run, "tiny").sum()))

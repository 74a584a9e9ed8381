"""Training on pooled rows is gradient descent on all of them."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import Ditto, FedAvg, FedPer, LocalOnly
from papers.pooling import pooled
from tests.methods.iterative.algorithms.against_papers import NEAR, PLAIN, SITES, downhill
from tests.methods.iterative.making import whole

EVERYONE = fedgeom.SiteData("all", np.vstack([s.X for s in SITES]), np.concatenate([s.y for s in SITES]))


@pytest.mark.parametrize(
    "algorithm",
    [FedAvg(**PLAIN), Ditto(**PLAIN), FedPer(**PLAIN), LocalOnly(**PLAIN), FedAvg(aggregation="krum", **PLAIN)],
)
def test_pooled_is_descent_on_all_rows(algorithm):
    assert whole(pooled(algorithm, SITES)) == pytest.approx(downhill(EVERYONE), **NEAR)


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(participation=0.5, validation_fraction=0.2, patience=2),
        FedAvg(scale="site"),
        FedAvg(personal="finetuned"),
    ],
)
def test_what_is_federated_has_no_meaning_for_pooled_training(algorithm):
    assert (whole(pooled(algorithm, SITES)) == whole(pooled(FedAvg(), SITES))).all()


def test_a_pooled_model_can_be_read_back(tmp_path):
    model = pooled(Ditto(n_rounds=1), SITES)
    model.save(tmp_path / "m.safetensors")
    assert fedgeom.load_model(tmp_path / "m.safetensors").to_bytes() == model.to_bytes()

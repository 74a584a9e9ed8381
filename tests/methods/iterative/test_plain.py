"""The plain twin and pooled training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom import Ditto, FedAvg, FedPer, LocalOnly, PTopoFL
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Algorithm, pooled, simulate
from fedgeom.methods.iterative.plain import scales
from tests.methods.iterative.algorithms.against_papers import NEAR, PLAIN, SITES, downhill
from tests.methods.iterative.making import own, whole

EVERYONE = fedgeom.SiteData("all", np.vstack([s.X for s in SITES]), np.concatenate([s.y for s in SITES]))


def test_the_method_and_the_function_are_the_same():
    one, other = FedAvg(rounds=2).plain(SITES, seed=3), simulate(FedAvg(rounds=2), SITES, 3)
    assert one.model.to_bytes() == other.model.to_bytes()
    assert (own(one, "s1") == own(other, "s1")).all()


@pytest.mark.parametrize(
    "algorithm",
    [FedAvg(**PLAIN), Ditto(**PLAIN), FedPer(**PLAIN), LocalOnly(**PLAIN), FedAvg(aggregation="krum", **PLAIN)],
)
def test_pooled_is_descent_on_all_rows(algorithm):
    assert whole(pooled(algorithm, SITES)) == pytest.approx(downhill(EVERYONE), **NEAR)


@pytest.mark.parametrize(
    "algorithm",
    [FedAvg(share=0.5, validation=0.2, patience=2), FedAvg(scale="site"), FedAvg(personal="finetuned")],
)
def test_what_is_federated_has_no_meaning_for_pooled_training(algorithm):
    assert (whole(pooled(algorithm, SITES)) == whole(pooled(FedAvg(), SITES))).all()


def test_a_pooled_model_can_be_read_back(tmp_path):
    model = pooled(Ditto(rounds=1), SITES)
    model.save(tmp_path / "m.safetensors")
    assert fedgeom.load_model(tmp_path / "m.safetensors").to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    "algorithm", [FedAvg(share=0.5), FedAvg(validation=0.2), PTopoFL(clusters=2, augment=False, secure=False)]
)
def test_the_twin_refuses_what_it_does_not_do(algorithm):
    with pytest.raises(InputError, match="the plain twin has no sampling, no rows set aside, no groups"):
        simulate(algorithm, SITES)


def test_the_same_seed_gives_the_same_model():
    first, again, other = (whole(FedAvg(batch=4).plain(SITES, seed).model) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_the_order_of_the_sites_does_not_matter():
    assert FedAvg(rounds=2).plain(SITES[::-1]).model.to_bytes() == FedAvg(rounds=2).plain(SITES).model.to_bytes()


def test_scales():
    rows = np.vstack([site.X for site in SITES])
    for centre, spread in scales(FedAvg(), SITES):
        assert centre == pytest.approx(rows.mean(axis=0), abs=1e-5)
        assert spread == pytest.approx(rows.std(axis=0), abs=1e-5)
    for site, (centre, spread) in zip(SITES, scales(FedAvg(scale="site"), SITES), strict=True):
        assert centre == pytest.approx(site.X.mean(axis=0))
        assert spread == pytest.approx(site.X.std(axis=0))
    assert [(c.tolist(), s.tolist()) for c, s in scales(FedAvg(scale="none"), SITES)] == [([0, 0], [1, 1])] * 4


@dataclass(frozen=True, kw_only=True)
class InPlace(Algorithm):
    """Writes into what it is given, as a careless local step does."""

    name: ClassVar[str] = "test-in-place"

    def local(self, task, given, own):
        trained = task.fit(given["model"])
        given["model"]["weights"][:] = trained["weights"]
        return {"model": given["model"]}


def test_sites_of_the_twin_share_no_arrays():
    """Real sites are given a copy each; a twin whose first site spoils the second's would not be one."""
    algorithm = InPlace(rounds=2, epochs=1)
    assert algorithm.plain(SITES).model.to_bytes() == fedgeom.run(algorithm, SITES).model.to_bytes()


def test_whoever_watches_is_told_the_joint_model_of_each_round():
    seen = []
    last = simulate(FedAvg(rounds=3), SITES, 3, watch=lambda number, model: seen.append((number, model)))
    assert [number for number, _ in seen] == [0, 1, 2]
    np.testing.assert_array_equal(seen[-1][1].parameters.flat(), last.model.parameters.flat())
    np.testing.assert_array_equal(
        seen[1][1].parameters.flat(), simulate(FedAvg(rounds=2), SITES, 3).model.parameters.flat()
    )

"""The hospitals of the pTopoFL tables: sizes, rates, seeds, and parts that do not leak."""

from __future__ import annotations

import numpy as np
import pytest

from papers.ptopofl import scenarios

pytestmark = pytest.mark.full

REAL = {
    "heart": "heart_disease_4hospitals.npz",
    "eicu": "eicu_demo_186hospitals.npz",
    "tcga": "tcga_brca_6regions.npz",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.data(REAL[name]) if name in REAL else ())
        for name in scenarios.SCENARIOS
    ],
)
def test_a_seed_makes_the_same_finite_sites_with_both_classes_in_both_parts(name: str) -> None:
    first, again, other = (scenarios.SCENARIOS[name](seed) for seed in (3, 3, 4))
    for train, test, twin in zip(first.train, first.test, again.train, strict=True):
        assert np.isfinite(train.X).all()
        assert np.isfinite(test.X).all()
        assert set(train.y) == set(test.y) == {0, 1}
        assert np.array_equal(train.X, twin.X)
    assert not np.array_equal(first.train[0].X, other.train[0].X)
    assert set(first.honest) <= set(first.scored)


@pytest.mark.parametrize("seed", range(5))
def test_scenario_a_has_the_papers_sizes_rates_and_two_flippers(seed: int) -> None:
    honest, found = scenarios.scenario_a(seed, flip=0.0), scenarios.scenario_a(seed)
    assert len(found.train) == 8
    assert len(found.adversarial) == 2
    for train, test in zip(honest.train, honest.test, strict=True):
        n, died = len(train) + len(test), train.y.sum() + test.y.sum()
        assert 60 <= n <= 250
        assert 0.06 <= died / n <= 0.46
        assert train.X.shape[1] == 20
    for i in range(8):
        same = sorted(map(tuple, honest.train[i].X)) == sorted(map(tuple, found.train[i].X))
        assert same or i in found.adversarial


@pytest.mark.parametrize("seed", range(3))
def test_the_public_program_tells_classes_apart_by_single_columns_and_shifts_two_hospitals(seed: int) -> None:
    found = scenarios.public_a(seed)
    assert len(found.train) == 8
    assert len(found.adversarial) == 2
    assert all(60 <= len(site) <= 250 for site in found.train)
    assert {len(site) for site in found.test} == {400}
    assert found.test[0].y.mean() == pytest.approx(0.3, abs=0.01)
    whole = np.vstack([site.X for site in found.train])
    np.testing.assert_allclose(whole.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(whole.std(axis=0), 1, rtol=1e-9)
    seen = found.test[0].X[:, :10].sum(axis=1)
    order = np.argsort(seen)
    assert found.test[0].y[order][-60:].all(), "the outcome follows from the informative columns"
    shift = [site.X[:, :10].mean() for site in found.train]
    assert set(np.argsort(shift)[-2:].tolist()) == set(found.adversarial)
    assert {len(site) for site in scenarios.public_b(seed).train} == {150}
    assert not scenarios.public_b(seed).adversarial

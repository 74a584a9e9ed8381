"""Riemannian SGD: the step of half a squared distance with rate 1 ends at the other point, wherever it begins."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.hyperbolic import poincare
from fedgeom.geometry.hyperbolic.isometry import FARTHEST, sgd_step

torch = pytest.importorskip("torch")


def half_square(v, target):
    """Return the gradient in v of ½ d(exp_o(v), target)², by torch's own differentiation of the printed formulas."""
    at = torch.tensor(v, dtype=torch.float64, requires_grad=True)
    r = torch.linalg.vector_norm(at)
    p, q = at * torch.tanh(r) / r, torch.tensor(target)
    ratio = 1 + 2 * ((p - q) ** 2).sum() / ((1 - (p**2).sum()) * (1 - (q**2).sum()))
    (torch.arccosh(ratio) ** 2 / 2).backward()
    return at.grad.numpy()


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_of_half_a_squared_distance_is_the_way_to_the_point(seed):
    rng = np.random.default_rng(seed)
    v, target = rng.normal(size=4), poincare.exp0(rng.normal(size=4))
    found = poincare.exp0(sgd_step(v, half_square(v, target), 1.0))
    np.testing.assert_allclose(found, target, atol=1e-9)
    halfway = poincare.exp0(sgd_step(v, half_square(v, target), 0.5))
    np.testing.assert_allclose(halfway, poincare.midpoint(poincare.exp0(v), target), atol=1e-9)


def test_by_hand():
    # At the origin the metric is 4 times the plain one: a quarter of the gradient.
    np.testing.assert_allclose(sgd_step(np.zeros(2), [4.0, 0.0], 0.1), [-0.1, 0.0], atol=1e-12)
    # On a ray the step is one of r itself, whose length is 2r: d²(2r)² = 4 again.
    np.testing.assert_allclose(sgd_step([2.0, 0.0], [4.0, 0.0], 0.1), [1.9, 0.0], atol=1e-12)
    # Across, far out, the same gradient moves the coordinates by less: sinh²(2r)/r² instead of 4.
    moved = sgd_step([2.0, 0.0], [0.0, 4.0], 1e-6)
    np.testing.assert_allclose(moved[1] / -1e-6, 4 * 4 / np.sinh(4.0) ** 2, rtol=1e-5)


def test_a_huge_step_stays_inside():
    found = sgd_step([[1.0, 0.0], [0.0, 0.0]], [[-1e30, 0.0], [0.0, 1e30]], 1.0)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1).max() <= FARTHEST

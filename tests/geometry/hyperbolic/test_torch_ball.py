"""The torch ball against the float64 ball: distances, gradients, the edge, the limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom.geometry.hyperbolic import poincare, prototypes

torch = pytest.importorskip("torch")
ball = pytest.importorskip("fedgeom.geometry.hyperbolic.torch_ball")

LENGTHS = (1e-6, 1e-3, 0.1, 1.0, 3.0, 7.9, 8.1, 12.0)
SLOPES = (0.2, 0.9, 0.99, 0.9999)


def features(length, dim=20, rows=16, seed=0):
    z = np.random.default_rng(seed).normal(size=(rows, dim))
    return z * length / np.linalg.norm(z, axis=1, keepdims=True)


def pins(slope, dim=20, classes=10):
    return prototypes.contract(prototypes.tammes(classes, dim, rng=np.random.default_rng(0)), slope)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("slope", SLOPES)
def test_float32_distances_equal_those_of_the_float64_ball(length, slope):
    z = features(length).astype(np.float32)
    w = pins(slope).astype(np.float32)
    found = ball.distances(torch.from_numpy(z), torch.from_numpy(w)).numpy()
    wanted = poincare.pairwise_distance(poincare.exp0(z.astype(float)), w.astype(float))
    # A float32 prototype's gap to the edge is known up to rounding over the gap.
    np.testing.assert_allclose(found, wanted, rtol=3e-6 + 4e-7 / (1 - slope))


@pytest.mark.parametrize("length", LENGTHS[2:])
def test_float64_distances_are_exact(length):
    z, w = features(length), pins(0.9)
    found = ball.distances(torch.from_numpy(z), torch.from_numpy(w)).numpy()
    wanted = prototypes.distances(poincare.exp0(z), w)
    # The float64 ball itself knows points r away from the origin up to rounding over their gap, e^{-2r}.
    np.testing.assert_allclose(found, wanted, rtol=1e-12 + 1e-16 * math.exp(2 * length))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("slope", [0.2, 0.9, 1.0])
def test_float32_gradients_equal_float64_gradients(length, slope):
    grads = []
    for dtype in (torch.float32, torch.float64):
        z = torch.from_numpy(features(length)).to(dtype).requires_grad_()
        uneven = torch.linspace(-1, 2, 10, dtype=dtype)  # the plain sum over a simplex has next to no gradient
        (ball.distances(z, torch.from_numpy(pins(slope)).to(dtype)) @ uneven).sum().backward()
        grads.append(z.grad.double().numpy())
    np.testing.assert_allclose(grads[0], grads[1], atol=1e-4 * np.abs(grads[1]).max())


def test_the_gradient_equals_differences():
    z = torch.from_numpy(features(1.3, dim=3, rows=2)).requires_grad_()
    w = torch.from_numpy(pins(0.9, dim=3, classes=4))
    assert torch.autograd.gradcheck(lambda x: ball.distances(x, w), z)
    assert torch.autograd.gradcheck(lambda x: ball.distances(x, w / 0.9), z)
    assert torch.autograd.gradcheck(ball.exp0, z)


@pytest.mark.parametrize("slope", [0.9, 1.0])
@pytest.mark.parametrize("length", [0.0, 1e-30, 20.0, 100.0, 1e4, 1e15])
def test_at_the_origin_and_far_beyond_the_edge_all_is_finite(length, slope):
    z = torch.from_numpy(features(1.0) * length).float().requires_grad_()
    found = ball.distances(z, torch.from_numpy(pins(slope)).float())
    found.sum().backward()
    assert torch.isfinite(found).all()
    assert torch.isfinite(z.grad).all()
    if 20 <= length <= 1e4:  # the distance to anything grows by two per unit of z
        wanted = 2 * length + math.log(0.25) if slope == 1 else 2 * length
        assert (found - wanted).abs().max() < 8


def test_on_a_prototype_distance_and_gradient_are_zero():
    w = torch.from_numpy(pins(0.9)).float()
    z = ball.log0(w).requires_grad_()
    own = ball.distances(z, w).diagonal()
    own.sum().backward()
    assert own.abs().max() < 1e-5
    assert torch.isfinite(z.grad).all()


def test_maps_at_the_origin_equal_the_ball_and_each_other():
    z = features(0.8)
    x = ball.exp0(torch.from_numpy(z))
    np.testing.assert_allclose(x.numpy(), poincare.exp0(z), rtol=1e-13)
    np.testing.assert_allclose(ball.log0(x).numpy(), z, rtol=1e-12)
    assert ball.exp0(torch.zeros(1, 3)).abs().max() == 0


def test_busemann_functions_equal_the_float64_ones():
    z, w = features(2.0), pins(1.0)
    found = ball.distances(torch.from_numpy(z), torch.from_numpy(w)).numpy()
    np.testing.assert_allclose(found, prototypes.distances(poincare.exp0(z), w), atol=1e-12)

"""Samples: uniform by hyperbolic area, labelled as the hyperplane says, reproducible."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import poincare as pb
from fedgeom.geometry.hyperbolic.sampling import labelled_disc, uniform_disc

CURVATURES = (0.0015, 0.5, 1.0, 4.0)


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("radius", [0.1, 0.95, 0.9999])
def test_area_and_angle_are_uniform(radius, c):
    edge = radius / math.sqrt(c)
    X = uniform_disc(20_000, edge, np.random.default_rng(11), c=c)
    norms = np.linalg.norm(X, axis=1)
    assert norms.max() <= edge * (1 + 1e-15)
    half = math.sqrt(c) / 2
    area = np.sinh(half * pb.hyperbolic_radius(norms, c=c)) ** 2  # Eq. 15 without its constant
    share = area / math.sinh(half * float(pb.hyperbolic_radius(edge, c=c))) ** 2
    assert kstest(share, "uniform").pvalue > 1e-3
    turns = np.mod(np.arctan2(X[:, 1], X[:, 0]) / (2 * np.pi), 1.0)
    assert kstest(turns, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(share, turns)[0, 1]) < 0.03


def test_same_generator_same_points():
    first = uniform_disc(50, 0.9, np.random.default_rng(3))
    np.testing.assert_array_equal(first, uniform_disc(50, 0.9, np.random.default_rng(3)))
    assert uniform_disc(0, 0.9, np.random.default_rng(3)).shape == (0, 2)
    a, b = (labelled_disc(500, 0.9, 0.1, np.random.default_rng(4), reference_norm=0.3) for _ in range(2))
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)


@pytest.mark.parametrize("c", CURVATURES)
@pytest.mark.parametrize("margin", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("mu", [0.0, 0.2, 0.8])
def test_labels_and_margin(mu, margin, c):
    radius, gamma = 0.95 / math.sqrt(c), margin / math.sqrt(c)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        data = labelled_disc(2000, radius, gamma, rng, reference_norm=mu * radius, c=c)
        offset = pb.hyperplane_distance(data.X, data.reference, data.normal, c=c)
        np.testing.assert_array_equal(np.sign(offset), data.y)
        assert np.abs(offset).min() > gamma
        assert np.linalg.norm(data.reference) == pytest.approx(mu * radius, rel=1e-12, abs=1e-15)
        assert np.linalg.norm(data.normal) == pytest.approx(1.0)
        assert len(data.X) == len(data.y) <= 2000
        assert min((data.y == 1).sum(), (data.y == -1).sum()) >= 100
        assert data.y.dtype == np.int64


def test_bad_requests_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="smaller margin"):
        labelled_disc(1000, 0.5, 5.0, rng, reference_norm=0.1)
    with pytest.raises(InputError, match="reference_norm is"):
        labelled_disc(1000, 0.5, 0.1, rng, reference_norm=0.6)
    with pytest.raises(InputError, match="margin is"):
        labelled_disc(1000, 0.5, -0.1, rng, reference_norm=0.1)
    with pytest.raises(InputError, match="n is"):
        labelled_disc(1, 0.5, 0.1, rng, reference_norm=0.1)
    with pytest.raises(InputError, match="n is"):
        uniform_disc(-1, 0.5, rng)
    with pytest.raises(InputError, match="radius is"):
        uniform_disc(10, 1.5, rng)

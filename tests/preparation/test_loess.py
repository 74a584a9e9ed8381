"""The curve through variances."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.preparation.select_variable import loess


def test_a_parabola_is_its_own_curve():
    x = np.random.default_rng(0).uniform(-3, 5, 400)
    np.testing.assert_allclose(loess(x, 1 - 2 * x + 0.5 * x**2), 1 - 2 * x + 0.5 * x**2, atol=0.02)


def test_the_order_of_points_makes_no_difference():
    rng = np.random.default_rng(1)
    x, y = rng.uniform(size=(2, 200))
    order = rng.permutation(200)
    np.testing.assert_allclose(loess(x[order], y[order]), loess(x, y)[order])


@pytest.mark.parametrize("n", [300, 2000])
@pytest.mark.parametrize("span", [0.3, 0.6])
def test_it_is_clevelands(n, span):
    theirs = pytest.importorskip("skmisc.loess")
    rng = np.random.default_rng(n)
    x = np.log10(rng.gamma(0.5, 2, n))
    y = np.sin(x) + 0.1 * rng.normal(size=n)
    model = theirs.loess(x, y, span=span, degree=2)
    model.fit()
    np.testing.assert_allclose(loess(x, y, span), model.outputs.fitted_values, atol=3e-3)

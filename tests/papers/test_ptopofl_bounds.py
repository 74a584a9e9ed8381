"""What Theorems 7 and 9 and Lemma 12 of pTopoFL promise, against examples that are computed by hand or in a second."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.topology.descriptors import descriptor
from fedgeom.geometry.topology.distances import site_distances
from fedgeom.geometry.topology.persistence import rips_diagrams
from papers.ptopofl import bounds

pytestmark = pytest.mark.full


def test_lemma_12_fails_where_sites_have_minima_of_their_own() -> None:
    """One exact step of 0.1 from w* = 0 towards 1 ends at 0.1, squared 0.01; without noise the bound is 0.

    With the gradients' spread, 1, counted as noise the bound is 0.1²·τ/½, which holds for one step and not for twenty.
    """
    first, *_, last = bounds.lemma()
    assert (first["left"], first["right, σ² = 0"], first["right, σ² = B²"]) == (0.01, 0.0, 0.02)
    assert last["left"] == pytest.approx((1 - 0.9**20) ** 2, abs=1e-4)
    assert last["left"] > last["right, σ² = B²"]


def test_theorem_7_a_descriptor_tells_of_a_row_where_the_gradient_tells_nothing() -> None:
    """With an intercept alone the gradient is the mean of σ(w) − y: no x in it, and the theorem's bound is 0.

    The amplitude of H0 of two rows is |x_1 − x_2|, whose square and that of x_1 correlate by 2/√(2·8) = ½ for standard
    normal rows: they are not independent, and the information is not 0.
    """
    pytest.importorskip("gudhi", reason="needs the topology extra")
    X = np.random.default_rng(0).normal(size=(600, 2, 1))
    told = np.array(
        [descriptor(one, points=2, scale="none", rng=np.random.default_rng(0))[bounds.AMPLITUDE] for one in X]
    )
    np.testing.assert_allclose(told, np.abs(X[:, 0, 0] - X[:, 1, 0]))
    assert np.corrcoef(told**2, X[:, 0, 0] ** 2)[0, 1] == pytest.approx(0.5, abs=0.12)


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_theorem_7_a_mean_tells_one_over_2n_of_a_row_and_not_its_square(n: int) -> None:
    """Of n standard normal rows the mean and one row correlate by 1/√n: −½ log(1 − 1/n) nats."""
    exact = -0.5 * np.log(1 - 1 / n)
    assert exact == pytest.approx(1 / (2 * n), rel=0.06)
    assert exact > 5 / n**2


def test_theorem_9_weights_other_than_by_rows_end_elsewhere() -> None:
    """Two sites that pull to ±1: equal weights end at w* = 0, weights of .9 and .1 at .8, whatever the rounds."""
    w, weights = 0.0, np.array([0.9, 0.1])
    for _ in range(300):
        w = float(weights @ (w - 0.1 * (w - np.array([1.0, -1.0]))))
    assert w == pytest.approx(0.8)


def test_theorem_9_eq_14_fails_for_the_same_rows_with_other_labels() -> None:
    """The diagrams are the same, so that the right side is 0; the gradients are opposite."""
    pytest.importorskip("gudhi", reason="needs the topology extra")
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), (np.arange(30) % 2).astype(float)
    assert site_distances(rips_diagrams(X), rips_diagrams(X)) == 0.0
    one, other = (bounds.gradient(X, labels, np.zeros(2)) for labels in (y, 1 - y))
    np.testing.assert_allclose(one, -other)
    assert np.linalg.norm(one) > 0.01

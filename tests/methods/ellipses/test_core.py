"""What a site writes is what the coordinator reads: moments of its rows, and of small classes less."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.data.validation import FaultsError
from fedgeom.geometry.hyperbolic.poincare import exp0
from fedgeom.methods.ellipses.core import EllipseLayout, check_width, read_sum, vectors, write_classes
from tests.methods.ellipses.making import cloud

SETTINGS = fedgeom.Ellipses(scale="none")


def test_moments_come_back_as_they_were() -> None:
    a, b = cloud(0, 0), cloud(1, 1, 30)
    layout = EllipseLayout(3, 2, 2, 1)
    V, y = np.vstack([a, b]), np.repeat(["x", "y"], [60, 30])
    found = read_sum(write_classes(V, y, {"x": 3, "y": 2}, layout, SETTINGS, 6), layout)
    order = np.argsort(-found.gaussians.counts)
    assert found.gaussians.counts[order].tolist() == [60, 30]
    assert found.slots[order].tolist() == [3, 2]
    for at, rows in zip(order.tolist(), (a, b), strict=True):
        assert np.allclose(found.gaussians.means[at], rows.mean(axis=0))
        assert np.allclose(found.gaussians.covariances[at], np.cov(rows.T, bias=True))
    within = (60 * np.cov(a.T, bias=True) + 30 * np.cov(b.T, bias=True)) / 90
    assert np.allclose(found.within, within)


def test_of_small_classes_covariances_stay_at_home() -> None:
    a, b = cloud(0, 0), cloud(1, 1, 5)
    layout = EllipseLayout(3, 1, 2, 1)
    V, y = np.vstack([a, b]), np.repeat(["x", "y"], [60, 5])
    vector = write_classes(V, y, {"x": 0, "y": 1}, layout, SETTINGS, 6)
    other = b.copy()
    other[:, 1] = other[
        np.argsort(np.random.default_rng(0).random(5)), 1
    ]  # columns no longer go together as they did
    again = write_classes(np.vstack([a, other]), y, {"x": 0, "y": 1}, layout, SETTINGS, 6)
    slot = slice(layout.scatter + layout.slot, None)
    assert np.allclose(vector[slot], again[slot])
    found = read_sum(vector, layout)
    small = int(found.gaussians.counts.argmin())
    assert np.allclose(np.diag(found.gaussians.covariances[small]), b.var(axis=0))
    deviations = np.sqrt(np.diag(found.within))
    alike, spread = found.within / np.outer(deviations, deviations), b.std(axis=0)
    assert np.allclose(found.gaussians.covariances[small], alike * np.outer(spread, spread))


def test_the_order_of_what_is_read_does_not_depend_on_the_slots() -> None:
    V = np.vstack([cloud(0, at) for at in range(4)])
    y = np.repeat(["a", "b", "c", "d"], 60)
    layout = EllipseLayout(3, 2, 2, 1)
    first = read_sum(write_classes(V, y, {"a": 0, "b": 1, "c": 2, "d": 3}, layout, SETTINGS, 6), layout)
    other = read_sum(write_classes(V, y, {"a": 3, "b": 2, "c": 0, "d": 1}, layout, SETTINGS, 6), layout)
    assert np.array_equal(first.gaussians.means, other.gaussians.means)


def test_rows_of_the_ball_are_taken_to_its_tangent_space() -> None:
    tangent = np.array([[0.3, -0.2], [0.0, 0.5]])
    ball = fedgeom.Ellipses(space="ball", curvature=2.0)
    assert np.allclose(vectors(exp0(tangent, c=2.0), ball, None), tangent)
    scales = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert np.allclose(vectors(np.array([[3.0, 6.0]]), SETTINGS, scales), [[1.0, 1.0]])


def test_too_wide_a_table_is_told_how_many_columns_would_do() -> None:
    with pytest.raises(FaultsError, match=r"Gaussians of 2,000 columns, 10 classes and 5 sites are a message"):
        check_width(2000, EllipseLayout(2000, 5, 10, 1), 64 * 2**20)
    check_width(50, EllipseLayout(50, 5, 10, 1), 64 * 2**20)

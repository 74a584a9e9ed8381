"""The aggregations: their definitions, what they bear, and what they commute with."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods import aggregation
from fedgeom.methods.iterative import Aggregation, GeometricMedian, Krum, Mean, Median, TrimmedMean
from fedgeom.protocols.fixed_point import from_fixed, to_fixed
from tests.tiers import examples

NAMES = ("mean", "median", "trimmed", "krum", "geometric")
numbers = st.integers(-1000, 1000).map(lambda value: value / 8)
tables = st.tuples(st.integers(3, 9), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=numbers)
)


def one(name, vectors, weights=None):
    weights = np.ones(len(vectors)) if weights is None else weights
    return Aggregation.read(name, "aggregation")(np.asarray(vectors, float), np.asarray(weights, float))


def test_mean_by_hand():
    assert Mean()(np.array([[1.0, 0.0], [4.0, 6.0]]), np.array([2.0, 1.0])) == pytest.approx([2.0, 2.0])


def test_median_by_hand():
    assert Median()(np.array([[1.0], [9.0], [2.0], [4.0]]), np.ones(4)) == pytest.approx([3.0])


def test_trimmed_mean_by_hand():
    values = np.array([[5.0], [1.0], [2.0], [1000.0], [-1000.0]])
    assert TrimmedMean(0.2)(values, np.ones(5)) == pytest.approx([8 / 3])
    assert TrimmedMean(0.0)(values, np.ones(5)) == pytest.approx([8 / 5])
    assert TrimmedMean(0.5)(values, np.ones(5)) == pytest.approx([2.0])  # all but the middle


def test_krum_by_its_definition():
    """Blanchard et al. 2017: the vector with the least sum of squared distances to its n − f − 2 nearest."""
    rng = np.random.default_rng(0)
    for n, bad in ((5, 1), (7, 2), (9, 0), (6, 1)):
        vectors = rng.normal(size=(n, 3))
        scores = []
        for i in range(n):
            gaps = sorted(float(((vectors[i] - vectors[j]) ** 2).sum()) for j in range(n) if j != i)
            scores.append(sum(gaps[: n - bad - 2]))
        assert Krum(bad)(vectors, np.ones(n)) == pytest.approx(vectors[int(np.argmin(scores))])


def test_geometric_median_by_hand():
    # A triangle's point of least distances sees all sides under 120°: for an equilateral one, the centre.
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])
    assert GeometricMedian()(corners, np.ones(3)) == pytest.approx(corners.mean(axis=0), abs=1e-8)
    # With an angle of more than 120° it is that corner itself.
    flat = np.array([[0.0, 0.0], [1.0, 0.05], [-1.0, 0.05]])
    assert GeometricMedian()(flat, np.ones(3)) == pytest.approx([0.0, 0.0], abs=1e-6)
    # On a line it is the weighted median.
    line = np.array([[0.0], [1.0], [10.0]])
    assert GeometricMedian()(line, np.array([1.0, 1.0, 5.0])) == pytest.approx([10.0], abs=1e-6)


def test_geometric_median_goes_on_from_one_of_the_vectors():
    # Here the mean, where the steps begin, is one of the vectors, but not the median.
    values = np.array([[0.0], [3.0], [-1.0], [-1.0], [-1.0]])
    assert GeometricMedian()(values, np.ones(5)) == pytest.approx([-1.0], abs=1e-6)


@examples(60)
@given(tables)
def test_geometric_median_is_no_worse_than_any_vector_or_the_mean(vectors):
    found = GeometricMedian()(vectors, np.ones(len(vectors)))

    def total(at):
        return np.linalg.norm(vectors - at, axis=1).sum()

    best = min(total(at) for at in [*vectors, vectors.mean(axis=0)])
    assert total(found) <= best * (1 + 1e-4) + 1e-6


@examples(40)
@given(tables, st.sampled_from(NAMES), st.randoms(use_true_random=False))
def test_the_order_of_sites_does_not_matter(vectors, name, random):
    order = list(range(len(vectors)))
    random.shuffle(order)
    if name == "krum":  # of two equally good vectors it takes the first
        vectors = vectors + np.arange(len(vectors))[:, None] ** 2 * 1e3
    found, again = one(name, vectors), one(name, vectors[order])
    if name == "geometric":  # on a line, every point between the middle two may be a median: all cost the same
        found, again = (np.linalg.norm(vectors - point, axis=1).sum() for point in (found, again))
    assert again == pytest.approx(found, abs=1e-4)


@examples(40)
@given(tables, st.sampled_from(NAMES), st.integers(-50, 50), st.sampled_from([0.5, 2.0, 4.0]))
def test_moving_and_stretching_all_moves_and_stretches_the_result(vectors, name, shift, stretch):
    if name == "krum":
        vectors = vectors + np.arange(len(vectors))[:, None] ** 2 * 1e3
    moved, expected = one(name, stretch * vectors + shift), stretch * one(name, vectors) + shift
    if name == "geometric":  # on a line, many points may be as good
        there = stretch * vectors + shift
        moved, expected = (np.linalg.norm(there - point, axis=1).sum() for point in (moved, expected))
    assert moved == pytest.approx(expected, abs=2e-3)


@examples(40)
@given(tables, st.sampled_from(NAMES))
def test_the_result_lies_in_the_box_of_the_vectors(vectors, name):
    found = one(name, vectors)
    assert (found >= vectors.min(axis=0) - 1e-6).all()
    assert (found <= vectors.max(axis=0) + 1e-6).all()


@examples(30)
@given(st.sampled_from(NAMES), st.integers(1, 8), arrays(float, 3, elements=numbers))
def test_all_alike_gives_the_same(name, count, vector):
    assert one(name, np.tile(vector, (count, 1))) == pytest.approx(vector, abs=1e-7)


@pytest.mark.parametrize(("name", "liars"), [("median", 4), ("trimmed", 1), ("krum", 3), ("geometric", 4)])
@pytest.mark.parametrize("size", [1e3, 1e6])
def test_robust_ones_bear_liars(name, liars, size):
    rng = np.random.default_rng(1)
    honest = rng.normal(size=(9 - liars, 4))
    lies = size * (1 + rng.random(size=(liars, 4)))
    found = one(name, np.vstack([honest, lies]))
    assert np.linalg.norm(found) < 8
    assert np.linalg.norm(one("mean", np.vstack([honest, lies]))) > size / 10


@pytest.mark.parametrize("name", ["median", "trimmed", "krum", "geometric"])
def test_they_break_when_most_lie(name):
    vectors = np.vstack([np.zeros((3, 2)), np.full((6, 2), 1e4) + np.arange(6)[:, None]])
    assert np.linalg.norm(one(name, vectors)) > 1e3


def test_weights_count_in_mean_and_geometric_median_only():
    vectors, weights = np.array([[0.0], [1.0], [10.0]]), np.array([100.0, 1.0, 1.0])
    assert one("mean", vectors, weights)[0] < 0.2
    assert one("geometric", vectors, weights)[0] == pytest.approx(0.0, abs=1e-6)
    assert one("median", vectors, weights)[0] == 1.0


def test_krum_with_hardly_any_sites():
    assert one("krum", [[3.0]]) == pytest.approx([3.0])
    assert one("krum", [[3.0], [4.0]])[0] in (3.0, 4.0)
    assert Krum(2)(np.array([[0.0], [1.0], [5.0]]), np.ones(3))[0] in (0.0, 1.0)


# By name, as a table, and on the wire.


def test_all_are_known_by_name():
    assert set(NAMES) <= set(Aggregation.registry)
    assert [Aggregation.registry[name].name for name in NAMES] == list(NAMES)
    assert [name for name in NAMES if Aggregation.registry[name].sums_only] == ["mean"]


@pytest.mark.parametrize(
    ("given", "same", "plain"),
    [
        (TrimmedMean(0.3), {"name": "trimmed", "trim": 0.3}, {"name": "trimmed", "trim": 0.3}),
        ("trimmed", TrimmedMean(), {"name": "trimmed", "trim": 0.2}),
        ("median", Median(), "median"),
        (Krum(2), {"name": "krum", "n_byzantine": 2}, {"name": "krum", "n_byzantine": 2}),
        ("krum", {"name": "krum", "n_byzantine": None}, {"name": "krum", "n_byzantine": None}),
        ("geometric", GeometricMedian(), {"name": "geometric", "max_iter": 200, "tol": 1e-10}),
        ("mean", Mean(), "mean"),
    ],
)
def test_an_object_a_name_and_a_table_are_the_same(given, same, plain):
    one, other = FedAvg(aggregation=given), FedAvg(aggregation=same)
    assert one == other
    assert isinstance(one.aggregation, Aggregation)
    assert one.terms()["aggregation"] == other.terms()["aggregation"] == plain
    assert FedAvg.from_terms(one.terms()) == one


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mode", "aggregation='mode' is unknown; there are: mean, median, trimmed, krum, geometric"),
        ({"name": "mode"}, "aggregation='mode' is unknown; there are: mean, median"),
        (
            {"trim": 0.3},
            r"aggregation=\{'trim': 0.3\} given; wanted a name \(mean, median, .*\) or a table",
        ),
        (7, r"aggregation=7 given; wanted a name \(mean, median, trimmed, krum, geometric"),
        (None, "aggregation=None given; wanted a name"),
        ({"name": "median", "trim": 0.3}, "aggregation: 'median' has no setting 'trim'; it has none"),
        ({"name": "krum", "bad": 1}, "aggregation: 'krum' has no setting 'bad'; it has n_byzantine"),
        ({"name": "trimmed", "trim": 0.6}, "trim=0.6 given; wanted a number from 0 to 0.5"),
        ({"name": "trimmed", "trim": "0.1"}, "trim='0.1' given; wanted a number"),
        ({"name": "krum", "n_byzantine": -1}, "n_byzantine=-1 given; wanted a whole number of at least 0 or None"),
        ({"name": "geometric", "max_iter": 0}, "max_iter=0 given; wanted a whole number of at least 1"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(InputError, match=message):
        FedAvg(aggregation=given)


def test_objects_check_themselves():
    with pytest.raises(InputError, match=r"trim=0\.6 given; wanted a number from 0 to 0.5"):
        TrimmedMean(0.6)


@examples(40)
@given(tables, st.integers(1, 50))
def test_the_mean_is_that_of_a_secure_sum(vectors, rows):
    """Bit for bit: each site's part is rounded before it is added."""
    weights = rows + np.arange(len(vectors)) / 3
    options = {"fraction_bits": 28, "sites": len(vectors)}
    total = sum(to_fixed(w * np.append(v, 1.0), **options) for v, w in zip(vectors, weights, strict=True))
    expected = from_fixed(total, fraction_bits=28)
    assert (Mean()(vectors, weights) == expected[:-1] / expected[-1]).all()


@pytest.mark.parametrize("n_sites", [3, 20, 200])
def test_fixed_point_costs_a_mean_of_networks_less_than_single_precision(n_sites):
    """Against double-precision averaging: at most K·2⁻²⁹ divided by the weights, far below the rounding to f4."""
    rng = np.random.default_rng(n_sites)
    vectors = rng.normal(scale=0.05, size=(n_sites, 2000)).astype(np.float32).astype(np.float64)
    weights = rng.integers(1, 3000, n_sites).astype(float)
    exact = weights @ vectors / weights.sum()
    away = np.abs(Mean()(vectors, weights) - exact).max()
    assert away <= n_sites * 2.0**-29 / weights.sum() + 1e-15
    assert away < 0.01 * np.spacing(np.abs(exact).max().astype(np.float32))


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(), Krum(), GeometricMedian()], ids=lambda one: one.name)
def test_beside_the_vectors_little_memory_is_needed(rule, monkeypatch):
    """Large models of many sites must not be copied for each site, let alone for each pair."""
    vectors = np.random.default_rng(0).normal(size=(8, 50_000))
    vectors[3] = 1.0
    whole = rule(vectors, np.ones(8))
    monkeypatch.setattr(aggregation, "BLOCK", 2**14)
    tracemalloc.start()
    found = rule(vectors, np.ones(8))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(found, whole, rtol=1e-8)
    assert most < vectors.nbytes

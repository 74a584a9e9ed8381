"""The plain conversation: independence of order and labels, names of groups, and the published row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC
from papers.common import confidence
from papers.hulls import published
from papers.hulls.plain import name_groups, plain
from tests.methods.hulls.drawing import pairs

Floats = NDArray[np.float64]


@pytest.mark.parametrize("how", ["constrained", "spectral", "published"])
def test_learns_and_names(how: Any) -> None:
    sites = pairs()
    X, y = np.vstack([X for X, _ in sites]), np.concatenate([y for _, y in sites])
    model = plain(sites, how=how)
    assert np.mean(model.predict(X) == y) > 0.95
    flat = plain(sites, how=how, classifier=EuclideanSVC())
    assert np.mean(flat.predict(X) == y) > 0.95


def test_two_classes() -> None:
    sites = pairs(J=2)
    for how in ("constrained", "published"):
        model = plain(sites, how=how)  # type: ignore[arg-type]
        assert np.mean([np.mean(model.predict(X) == y) for X, y in sites]) > 0.95


def test_the_order_of_sites_and_rows_does_not_matter() -> None:
    sites = pairs()
    one = plain(sites, epsilon=0.05)
    rng = np.random.default_rng(1)
    for _ in range(3):
        shuffled = []
        for i in rng.permutation(len(sites)):
            order = rng.permutation(len(sites[i][0]))
            shuffled.append((sites[i][0][order], sites[i][1][order]))
        other = plain(shuffled, epsilon=0.05)
        for name in ("reference_", "coef_", "platt_"):
            np.testing.assert_array_equal(getattr(one.classifier, name), getattr(other.classifier, name))


def test_labels_do_not_matter_to_the_classifier() -> None:
    """Label switching: every site may use names of its own."""
    sites = pairs()
    switched = [(X, (y + i) % 3) for i, (X, y) in enumerate(sites)]
    np.testing.assert_array_equal(plain(sites).classifier.coef_, plain(switched).classifier.coef_)


def test_group_names_are_distinct_and_agree_with_most_hulls() -> None:
    members = np.array([0, 0, 1, 1, 1, 2])
    assert name_groups(members, ["b", "b", "a", "a", "b", "c"]) == ("b", "a", "c")
    assert name_groups(np.array([0, 0, 0, 1, 1]), ["a", "a", "a", "a", "b"]) == ("a", "b")
    assert name_groups(np.array([0, 1, 2]), ["a", "b", "b"])[0] == "a"


def test_other_curvatures() -> None:
    sites = [(3 * X, y) for X, y in pairs()]
    model = plain(sites, c=1 / 9)
    assert np.mean([np.mean(model.predict(X) == y) for X, y in sites]) > 0.95


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        ([], "at least one site"),
        ([([[2.0, 0.0]], [0])], "site 0"),
        ([([[0.1, 0.0, 0.0]], [0])], "site 0"),
        ([([[0.1, 0.0]], [0, 1])], "one label each"),
    ],
)
def test_refuses(sites: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        plain(sites)


# --- the published row --------------------------------------------------------------------------------------

needs_olsson = pytest.mark.data("olsson.npz")
FLP = [85.42, 87.50, 87.50, 85.42, 85.42, 85.42, 81.25, 87.50, 87.50, 87.50]


def two_digits(values: Any) -> list[float]:
    return [round(float(value), 2) for value in values]


def test_partition_is_complete_and_even() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.integers(0, 4, size=50)
    sites = published.published_partition(X, y, 3, seed=3)
    together = np.vstack([part for part, _ in sites])
    np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(X, axis=0))
    assert len(together) == 50
    again = published.published_partition(X, y, 3, seed=3)
    np.testing.assert_array_equal(sites[1][0], again[1][0])


def test_confidence_is_students() -> None:
    mean, half = confidence([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)


@needs_olsson
@pytest.mark.parametrize("shuffle", [None, 0])
def test_the_published_row_digit_for_digit(shuffle: int | None) -> None:
    """Also with the sites and their rows in another order, as an anonymous coordinator sees them."""
    row = published.row(shuffle=shuffle)
    assert two_digits(row["FLP"]) == FLP
    assert two_digits(confidence(row["FLP"])) == [86.04, 1.41]
    assert two_digits(confidence(row["FLE"])) == [75.0, 3.51]
    assert two_digits(row["CP"] + row["CE"]) == [79.17, 68.75]
    assert two_digits(row["CH-CP"] + row["CH-CE"]) == [83.33, 77.08]


@needs_olsson
@pytest.mark.parametrize(("epsilon", "flp", "fle"), [(0.1, 85.625, 75.625), (1.0, 85.41667, 79.16667)])
def test_published_row_at_coarser_grids(epsilon: float, flp: float, fle: float) -> None:
    row = published.row(epsilon=epsilon)
    assert np.mean(row["FLP"]) == pytest.approx(flp, abs=1e-4)
    assert np.mean(row["FLE"]) == pytest.approx(fle, abs=1e-4)


@needs_olsson
def test_the_plain_twin_on_olsson() -> None:
    X, X_test, y, y_test = published.olsson_split()
    sites = published.published_partition(X, y, 3, seed=0)
    model = plain(sites)
    assert np.mean(model.predict(X_test) == y_test) > 0.85
    assert sorted(model.names) == list(range(8))

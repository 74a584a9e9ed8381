"""Labels on points: merges between classes, neighbours, and what flipped labels do to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from fedgeom.errors import InputError
from fedgeom.geometry.topology.descriptors import mixed_merge_share, neighbour_disagreement
from tests.tiers import examples


def test_merges_on_a_line_by_hand() -> None:
    X = np.array([[0.0], [1.0], [3.0], [6.0], [10.0]])
    assert mixed_merge_share(X, ["a", "a", "a", "b", "b"]) == 0.25
    assert mixed_merge_share(X, ["a", "b", "a", "b", "a"]) == 1.0
    assert mixed_merge_share(X, [7] * 5) == 0.0
    assert mixed_merge_share(X, [7] * 5, adjusted=True) == 0.0
    # Three a and two b: of 10 pairs 6 are mixed.
    assert mixed_merge_share(X, ["a", "a", "a", "b", "b"], adjusted=True) == pytest.approx(0.25 / 0.6)


def test_neighbours_by_hand() -> None:
    X = np.array([[0.0], [1.0], [2.1], [10.0], [11.0]])
    assert neighbour_disagreement(X, [0, 0, 1, 1, 1], k=1) == pytest.approx(1 / 5)
    assert neighbour_disagreement(X, [0, 0, 1, 1, 1], k=99) == pytest.approx(12 / 20)
    assert neighbour_disagreement(X, [0, 0, 1, 1, 1], k=99, adjusted=True) == pytest.approx(1.0)


def test_duplicates_are_neighbours_and_not_oneself() -> None:
    X = np.zeros((4, 2))
    assert neighbour_disagreement(X, [0, 1, 1, 1], k=3) == pytest.approx(0.5)
    assert mixed_merge_share(X[:2], [0, 1]) == 1.0


@pytest.mark.parametrize("n", [0, 1])
def test_a_site_without_pairs_has_zero(n: int) -> None:
    assert mixed_merge_share(np.zeros((n, 2)), np.zeros(n)) == 0.0
    assert neighbour_disagreement(np.zeros((n, 2)), np.zeros(n)) == 0.0


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_shuffled_labels_have_adjusted_share_one(share: float) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), np.arange(300) < 300 * share
    for statistic in (mixed_merge_share, neighbour_disagreement):
        found = [statistic(X, rng.permutation(y), adjusted=True) for _ in range(40)]
        assert np.mean(found) == pytest.approx(1.0, abs=0.05)


@examples(25)
@given(st.integers(2, 40), st.integers(0, 9999))
def test_names_and_order_do_not_matter(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 3)), rng.integers(0, 3, n)
    order, names = rng.permutation(n), np.array(["x", "a", "m"])
    for statistic in (mixed_merge_share, neighbour_disagreement):
        assert statistic(X, y) == pytest.approx(statistic(5 * X[order] - 2, names[y][order]))


def test_poisoned_sites_are_found_by_merges_and_by_neighbours() -> None:
    rng = np.random.default_rng(1)
    scores: dict[str, list[float]] = {"merges": [], "neighbours": []}
    for flips in [0.0] * 12 + [0.3] * 12:
        y = rng.integers(0, 2, 80)
        X = rng.normal(size=(80, 10)) + 1.2 * y[:, None] * (np.arange(10) < 4)
        y = np.where(rng.random(80) < flips, 1 - y, y)
        scores["merges"].append(mixed_merge_share(X, y))
        scores["neighbours"].append(neighbour_disagreement(X, y))
    poisoned = np.repeat([0, 1], 12)
    assert all(roc_auc_score(poisoned, found) > 0.95 for found in scores.values())


def test_exchanging_all_labels_changes_nothing() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    assert mixed_merge_share(X, y) == mixed_merge_share(X, 1 - y)
    assert neighbour_disagreement(X, y) == neighbour_disagreement(X, 1 - y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mixed_merge_share([[0.0]], [0, 1]), "one label"),
        (lambda: neighbour_disagreement([[0.0]], [0], k=0), "at least one"),
    ],
)
def test_what_cannot_be_used_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]

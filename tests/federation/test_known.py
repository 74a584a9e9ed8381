"""Rows of known classes: how well they fit, what they look like, and how many others are called unknown by them."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.federation.novelty import MOST_COLUMNS, MOST_SCORES, KnownRows, RowCloud


def test_the_threshold_is_an_order_statistic() -> None:
    known = KnownRows.scored(
        np.arange(1.0, 20.0)[::-1]
    )  # 19 scores: the first of 20 intervals has a share of 0.05
    assert (known.threshold(0.05), known.threshold(0.1), known.threshold(0.99)) == (1.0, 2.0, 19.0)
    with pytest.raises(
        InputError, match=r"alpha=0.01 given, but the model knows 19 rows only; wanted at least 99"
    ):
        known.threshold(0.01)
    for alpha in (0, 1, -0.1, np.nan):
        with pytest.raises(InputError, match="wanted a share between 0 and 1"):
            known.threshold(alpha)
    with pytest.raises(InputError, match="no finite scores"):
        KnownRows.scored([])


@pytest.mark.parametrize("n", [19, 150, 20_000])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_of_rows_like_the_known_ones_a_share_alpha_lies_below(n: int, alpha: float) -> None:
    """Exact on average over known rows, whatever the distribution."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(400 if n < 1000 else 20):
        known = KnownRows.scored(-rng.exponential(size=n))
        assert len(known.scores) <= MOST_SCORES
        shares.append(1 - np.exp(known.threshold(alpha)))  # P(−E > t) = 1 − e^t
    below = 1 - np.mean(shares)
    exact = np.floor(alpha * (n + 1) + 1e-9) / (n + 1)  # the largest share of ranks that is not above alpha
    assert below == pytest.approx(exact, abs=4 * np.std(shares) / len(shares) ** 0.5 + 1e-3)


def test_a_cloud_measures_by_the_spread_within_classes() -> None:
    X = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 0.0], [12.0, 0.0]])
    cloud = RowCloud.of(X, np.array(["a", "a", "b", "b"]))
    assert cloud.means.tolist() == [[1.0, 0.0], [11.0, 0.0]]
    assert cloud.spread.tolist() == [1.0, 1.0]  # a column that never moves counts as it is
    near, middle, far = cloud.scores(np.array([[1.0, 0.0], [6.0, 0.0], [30.0, 0.0]]))
    assert near == 0 > middle > far


@pytest.mark.parametrize("columns", [3, MOST_COLUMNS + 1])
def test_described_rows_call_about_a_share_alpha_of_others_like_them_unknown(columns: int) -> None:
    rng = np.random.default_rng(1)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, n)
        return rng.standard_t(4, size=(n, columns)) + 6.0 * y[:, None] * (np.arange(columns) < 3), y

    known = KnownRows.described(*draw(800))
    assert known.cloud is not None
    assert known.cloud.factor.shape == ((0, 0) if columns > MOST_COLUMNS else (columns, columns))
    least = known.threshold(0.1)
    assert np.mean(known.cloud.scores(draw(2000)[0]) < least) == pytest.approx(0.1, abs=0.04)
    new = rng.standard_t(4, size=(500, columns)) - 9.0 * (np.arange(columns) < 3)
    assert np.mean(known.cloud.scores(new) < least) > 0.5


def test_rows_that_no_label_reaches_are_no_known_rows() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    named = np.where(np.arange(40) < 30, "a", "")
    assert KnownRows.described(X, named).rows == 30
    with pytest.raises(InputError, match="9 known rows given; wanted at least 10"):
        KnownRows.described(X[:9], named[:9])


def test_it_comes_back_from_a_file_and_broken_ones_are_refused() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    for known in (KnownRows.scored([1.0, 2.0]), KnownRows.described(X, np.zeros(40, int))):
        arrays = known.arrays()
        again = KnownRows.read(arrays | {"weights": np.zeros(3)})
        assert again is not None
        assert {name: value.tolist() for name, value in again.arrays().items()} == {
            name: value.tolist() for name, value in arrays.items()
        }
    assert KnownRows.read({"weights": np.zeros(3)}) is None
    with pytest.raises(InputError, match="known rows cannot be read"):
        KnownRows.read({"known/scores": np.zeros(3)})

"""What sites count, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.protocols.evaluation import (
    BINS,
    MODELS,
    Counts,
    Tally,
    bin_chances,
    class_numbers,
    counts_length,
    mended_counts,
    numbered,
    private_counts,
    score_bins,
    tally,
)


def words(text: str) -> np.ndarray:
    return np.array(text.split())


def test_confusion_by_hand():
    said, own, numbers = words("a a b b c b"), words("a b b b c c"), numbered(["a", "b", "c"])
    found = tally(said, own, class_numbers(said, numbers, 3), class_numbers(own, numbers, 3), 3)
    assert found.right == 4
    assert found.confusion.tolist() == [[1, 0, 0, 0], [1, 2, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    assert found.scores is None
    assert found.rows == 6


def test_the_right_class_in_another_word_is_wrong_and_unknown_words_have_a_row():
    """Two words of one site in one class: the model says the first, so rows of the second are called wrongly."""
    said, own = words("x x y nobody"), words("x z y lost")
    numbers = {"x": 0, "z": 0, "y": 1}
    found = tally(said, own, class_numbers(said, numbers, 2), class_numbers(own, numbers, 2), 2)
    assert found.right == 2
    assert found.confusion.tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 1]]


def test_scores_fall_into_bins_in_order_and_the_surest_into_the_last():
    odds = np.array([-2000.0, -700.0, -30.0, -1.0, -0.01, 0.01, 1.0, 30.0, 700.0])
    bins = [int(np.flatnonzero(score_bins(np.array([one]), np.array([True]))[1])[0]) for one in odds]
    assert (np.diff(bins) > 0).all()
    assert bins[0] == 0
    assert bins[4] == BINS // 2 - 1
    assert bins[5] == BINS // 2
    found = tally(*words("0 0").reshape(2, 1), np.array([0]), np.array([0]), 2, np.array([[0.0, 1.0]]))
    assert found.scores[0, -1] == 1
    nobody = tally(*words("0 0").reshape(2, 1), np.array([0]), np.array([0]), 2, np.array([[0.0, 0.0]]))
    assert nobody.scores[0, BINS // 2] == 1
    middle, end = bin_chances()
    assert (np.diff(middle) >= 0).all()
    assert middle[BINS // 2 - 1] < end[BINS // 2 - 1] == 0.5 < middle[BINS // 2]


def test_with_floors_no_row_s_score_counts_by_itself():
    """Rows are counted at the mean of ten neighbours, of both classes, and of fewer rows nothing; other counts stay."""
    rng = np.random.default_rng(0)
    true = rng.permutation(np.repeat([0, 1], [28, 9]))
    odds = np.sort(rng.normal(0, 0.2, 37))
    odds[0] = -50.0  # far from all others, and its own bin without floors
    chances = np.column_stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))])
    said = (odds > 0).astype(int)
    own = said.astype(str), true.astype(str)
    found = tally(*own, said, true, 2, chances, least=10)
    plain = tally(*own, said, true, 2, chances)
    places = (np.arcsinh(odds) / 8 + 1) / 2 * BINS
    expected = np.zeros((2, BINS), np.int64)
    for first, end in ((0, 10), (10, 20), (20, 37)):
        expected[:, int(places[first:end].mean())] += np.bincount(true[first:end], minlength=2)
    np.testing.assert_array_equal(found.scores, expected)
    assert found.within.tolist() == [1, 10, 0, 0, 0]  # of a class with fewer rows no AUC
    assert plain.scores.sum(axis=1).tolist() == [28, 9]
    assert plain.within.tolist() == [0, 0, 0, 0, 0]
    np.testing.assert_array_equal(found.confusion, plain.confusion)
    few = tally(*(one[:9] for one in own), said[:9], true[:9], 2, chances[:9], least=10)
    assert not few.scores.any()


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_counts_are_one_vector_and_add_up(classes):
    rng = np.random.default_rng(classes)

    def drawn() -> Counts:
        return Counts.read(rng.integers(0, 9, counts_length(classes)), classes)

    one, other = drawn(), drawn()
    assert one.classes == classes
    assert len(one.flat()) == counts_length(classes)
    again = Counts.read(one.flat() + other.flat(), classes)
    assert again.sites == one.sites + other.sites
    for name in MODELS:
        assert (again.models[name].confusion == one.models[name].confusion + other.models[name].confusion).all()
    assert (again.models["own"].scores is not None) == (classes == 2)
    assert Tally.blank(classes).rows == 0


def test_right_answers_are_counted_by_group_where_groups_are_given():
    said, own = words("x x y y x"), words("x y y y x")
    numbers = {"x": 0, "y": 1}
    classes = class_numbers(said, numbers, 2), class_numbers(own, numbers, 2)
    found = tally(said, own, *classes, 2, groups=np.array(["p", "p", "p", "q", "q"]))
    assert found.groups.tolist() == [2, 2**2 + 2**2, 2 * 3 + 2 * 2, 3**2 + 2**2]
    assert tally(said, own, *classes, 2).groups is None


def test_counts_by_group_are_at_the_end_of_the_vector_and_add_up():
    rng = np.random.default_rng(0)
    length = counts_length(3, grouped=True)
    one, other = (Counts.read(rng.integers(0, 9, length), 3) for _ in range(2))
    assert len(one.flat()) == length == counts_length(3) + 4 * len(MODELS)
    again = Counts.read(one.flat() + other.flat(), 3)
    for name in MODELS:
        assert again.models[name].groups.tolist() == (one.models[name].groups + other.models[name].groups).tolist()
    assert Counts.read(one.flat()[: counts_length(3)], 3).models["own"].groups is None


def test_with_privacy_one_row_is_one_in_one_number():
    said, own, numbers = words("a a b b"), words("a b b b"), numbered(["a", "b"])
    blank = {name: Tally.blank(2) for name in MODELS}
    found = tally(said, own, class_numbers(said, numbers, 2), class_numbers(own, numbers, 2), 2)
    fewer = tally(said[1:], own[1:], class_numbers(said[1:], numbers, 2), class_numbers(own[1:], numbers, 2), 2)
    all_, less = (private_counts(Counts(1, np.zeros(3, int), blank | {"own": one})) for one in (found, fewer))
    assert all_.tolist() == [1, 0, 1, 2]
    assert (all_ - less).tolist() == [1, 0, 0, 0]


def test_mended_counts_are_the_nearest_that_can_be():
    found = mended_counts(np.array([40.0, -3.0, 5.0, 62.0]), 2, 3)
    assert found.models["own"].confusion[:-1, :-1].tolist() == [[39, 0], [4, 61]]
    assert found.models["own"].right == 100
    assert (found.sites, found.models["own"].rows) == (3, 104)
    assert found.trained.tolist() == [39, 65, 0]
    exact = np.array([5.0, 0.0, 1.0, 9.0])
    assert mended_counts(exact, 2, 1).models["own"].confusion[:-1, :-1].ravel().tolist() == exact.tolist()
    assert mended_counts(np.array([-3.0, -1.0, -2.0, -9.0]), 2, 1).models["own"].rows == 0


def test_mended_counts_add_no_rows_for_empty_cells():
    rng = np.random.default_rng(0)
    true = np.zeros((10, 10))
    np.fill_diagonal(true, 100)
    rights = []
    for _ in range(50):
        found = mended_counts((true + 4 * rng.normal(size=true.shape)).ravel(), 10, 3).models["own"]
        rights.append(found.right / found.rows)
    assert 0.93 < np.mean(rights) < 1.0

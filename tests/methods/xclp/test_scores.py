"""From scores to labels: what counts as a label, entropies by hand, and the reference code's confidences."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.xclp.core import (
    class_weights,
    code_confidence,
    confidence_level,
    is_labelled,
    keep_known,
    label_text,
    labels_and_confidence,
    normalise_classes,
    one_hot,
    shares,
)


def test_labels_and_confidence_by_hand() -> None:
    Z = np.array([[1.0, 1.0], [3.0, 0.0], [0.0, 0.0], [1.0, 3.0]])
    labels, confidence = labels_and_confidence(Z)
    assert labels.tolist() == [0, 0, -1, 1]
    quarter = 1 + (0.25 * np.log(0.25) + 0.75 * np.log(0.75)) / np.log(2)
    np.testing.assert_allclose(confidence, [0, 1, 0, quarter], atol=1e-12)


def test_the_reference_codes_confidences_are_options() -> None:
    Z = np.array([[1.0, 3.0], [3.0, 1.0], [9.0, 1.0]])
    _, plain_ = labels_and_confidence(Z)
    _, scaled = labels_and_confidence(Z, largest=float(plain_.max()))
    np.testing.assert_allclose(scaled, plain_ / plain_.max())
    labels, weighted = labels_and_confidence(Z, class_sizes=[2, 1])
    np.testing.assert_allclose(weighted, plain_ * np.array([1.5, 1.5, 0.75])[labels] / np.array([1, 2, 2]))


def test_the_reference_codes_confidences_by_hand() -> None:
    """Shares of 3/4 and 1/4 have confidence 0.18872, on the grid 774/4096; labels 0, 1, 1 weigh 3/2 and 3/4."""
    one, two = [[3.0, 1.0]], [[1.0, 3.0], [2.0, 6.0], [0.0, 0.0]]
    level = max(confidence_level(labels_and_confidence(Z)[1]) for Z in (one, two))
    assert level == 774
    np.testing.assert_allclose(code_confidence(one, level, [1, 2], [-1]), [0.188722 * 4096 / 774 * 1.5], rtol=1e-5)
    expected = 0.188722 * 4096 / 774 * 0.75
    np.testing.assert_allclose(
        code_confidence(two, level, [1, 2], [-1, -1, -1]), [expected, expected, 0], rtol=1e-5
    )
    assert code_confidence([[1.0, 1.0]], 0, [1, 0], [-1]).tolist() == [0.0]  # nobody is sure of anything
    assert confidence_level([1.0]) == 4096


def test_rows_with_a_label_of_their_own_keep_it_at_weight_one() -> None:
    """Shares of 1/4 and 3/4 have confidence 0.18872; two rows of two have the label: n/(C·n_c) is 1/2."""
    scores, known = [[3.0, 1.0], [1.0, 3.0]], [1, -1]
    assert keep_known([0, 1], known).tolist() == [1, 1]
    np.testing.assert_allclose(code_confidence(scores, 4096, [0, 2], known), [1.0, 0.188722 / 2], rtol=1e-5)


def test_one_class_is_certain_and_negative_rounding_is_nothing() -> None:
    assert labels_and_confidence([[2.0]])[1].tolist() == [1.0]
    assert labels_and_confidence([[-1e-18, 0.0]])[0].tolist() == [-1]
    assert labels_and_confidence([[1e-9, 0.0]], least=1e-6)[0].tolist() == [-1]


def test_class_normalisation_lets_columns_sum_alike() -> None:
    Y = one_hot([0, 0, 0, 1, -1], 3)
    np.testing.assert_array_equal(normalise_classes(Y, Y.sum(axis=0)).sum(axis=0), [1, 1, 0])
    assert class_weights([4, 0]).tolist() == [0.25, 0.0]


@pytest.mark.parametrize(
    ("y", "wanted"),
    [
        ([3, -1, 0], [True, False, True]),
        (np.array([3.0, np.nan, -1.0]), [True, False, False]),
        (["a", None, float("nan"), ""], [True, False, False, False]),
        (np.array(["a", "-1", "nan"]), [True, False, False]),
        (np.array([0, 255], np.uint8), [True, True]),
    ],
)
def test_what_counts_as_a_label(y: object, wanted: list[bool]) -> None:
    assert is_labelled(y).tolist() == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(("label", "text"), [(3.0, "3"), (3, "3"), ("3", "3"), (2.5, "2.5"), (np.int64(4), "4")])
def test_a_number_is_written_the_same_with_and_without_gaps_in_its_column(label: object, text: str) -> None:
    assert label_text(label) == text


def test_shares_sum_to_one_or_to_nothing() -> None:
    found = shares([[1.0, 3.0], [0.0, 0.0], [-1.0, 2.0]])
    assert found.tolist() == [[0.25, 0.75], [0.0, 0.0], [0.0, 1.0]]
    assert shares([[1e-9, 0.0]], least=1e-6).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: labels_and_confidence([[np.nan]]), "finite"),
        (lambda: labels_and_confidence([[1.0]], largest=0.0), "largest=0.0"),
        (lambda: shares([1.0]), "wanted finite scores"),
        (lambda: one_hot([2], 2), "wanted -1 … 1"),
        (lambda: one_hot([-2], 2), "wanted -1 … 1"),
        (lambda: class_weights([-1]), "at least 0"),
        (lambda: is_labelled([["a"]]), "one per row"),
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]

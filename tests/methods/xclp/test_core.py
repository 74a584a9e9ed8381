"""Variants and labels as numbers: what both halves and the twin compute."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.xclp.core import (
    VARIANTS,
    at_site,
    finish,
    label_numbers,
    own_label_counts,
    setting_for,
    shared_seed,
    without_labels,
)


def test_numbers_read_with_gaps_are_the_same_classes() -> None:
    assert label_numbers(np.array([1.0, np.nan, 2.0]), [1, 2]).tolist() == [0, -1, 1]


def test_labels_are_compared_as_text_and_strangers_are_named() -> None:
    assert label_numbers(["b", None, "a", ""], ("a", "b")).tolist() == [1, -1, 0, -1]
    with pytest.raises(InputError, match="labels outside the agreed classes: c, d"):
        label_numbers(["d", "a", "c"], ("a", "b"))


def test_own_names_are_counted_as_text_without_gaps() -> None:
    assert own_label_counts(np.array([2.0, np.nan, 1.0, 2.0])) == {"1": 1, "2": 2}
    assert own_label_counts(np.array(["b", "", "a", "-1"])) == {"a": 1, "b": 1}


def test_rare_labels_become_none() -> None:
    assert without_labels(np.array([2.0, np.nan, 1.0, 2.0]), ("2",)).tolist() == ["", "", "1", ""]
    assert without_labels(np.array(["b", "", "a", "-1"]), ("a",)).tolist() == ["b", "", "", ""]


def test_a_variant_with_other_neighbours_or_another_reach() -> None:
    assert setting_for("paper", None, None) == VARIANTS["paper"]
    changed = setting_for("paper", 3, 0.5)
    assert (changed.k, changed.alpha) == (3, 0.5)
    assert (changed.power, changed.self_loops) == (1, True)
    with pytest.raises(InputError, match="variant='best' is unknown; wanted one of paper, code, ours"):
        setting_for("best", None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variant", "scores"),
    [("paper", [[3.0, 1.0]]), ("code", [[0.3, 0.5]])],  # as they are; divided by 10 and 2 labels
)
def test_what_becomes_of_class_sizes(variant: str, scores: list[list[float]]) -> None:
    setting, Z, counts = setting_for(variant, None, None), np.array([[3.0, 1.0]]), np.array([10.0, 2.0])  # type: ignore[arg-type]
    found = at_site(Z, np.array([-1]), setting, counts, "em")
    np.testing.assert_allclose(found.scores, scores)
    assert found.codes.tolist() == [int(np.argmax(scores))]
    assert found.prior is None


def test_ours_finds_a_prior_and_finishes_later_rows_with_it() -> None:
    setting, counts = setting_for("ours", None, None), np.array([5.0, 5.0])
    found = at_site(np.array([[3.0, 1.0]]), np.array([-1]), setting, counts, "none")
    assert found.prior is not None
    np.testing.assert_allclose(found.scores, [[0.9, 0.1]])  # shares 3/4 and 1/4, squared, over even classes
    again = finish(np.array([[3.0, 1.0]]), setting, counts, found.prior)
    np.testing.assert_array_equal(again.scores, found.scores)


def test_a_runs_seed_makes_a_seed_of_32_bytes() -> None:
    assert len(shared_seed(7)) == 32
    assert shared_seed(7) == shared_seed(7) != shared_seed(8)
    assert shared_seed(bytes(range(32))) == bytes(range(32))

"""What travels while rows are prepared."""

from __future__ import annotations

from typing import get_args

import pytest

from fedgeom.federation.steps import Columns, SumKind
from fedgeom.protocols.preparation import SUMS, JointColumns, hash_columns, hidden_order, slots_for


def test_every_kind_of_sum_has_a_question_that_says_what_it_reveals():
    assert set(SUMS) == set(get_args(SumKind))
    assert all(question.checked and question.answer_reveals for question in SUMS.values())


def test_joint_columns_fit_together():
    assert JointColumns(columns=Columns(width=2, names=("a", "b"))).columns.width == 2
    for wrong in (Columns(width=0), Columns(width=2, names=("a",))):
        with pytest.raises(ValueError, match="fit together"):
            JointColumns(columns=wrong)


def test_lists_are_hashed_with_whose_they_are():
    assert hash_columns({"a": b"1", "b": b"2"}) != hash_columns({"a": b"2", "b": b"1"})
    assert [slots_for(n) for n in (0, 1, 256, 257)] == [0, 256, 256, 512]


def test_the_order_in_which_categories_are_counted_is_the_keys():
    one, two = hidden_order(bytes(32), 256), hidden_order(bytes([1]) + bytes(31), 256)
    assert sorted(one) == sorted(two) == list(range(256))
    assert one != two
    assert one == hidden_order.__wrapped__(bytes(32), 256)

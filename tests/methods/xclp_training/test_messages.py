"""What stands for features in sums: the round, the model and what was agreed on."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import Array, decode, encode
from fedgeom.methods.xclp_training.site import Embed, Embedded, hash_given


def test_a_stamp_changes_with_all_that_features_follow_from():
    ask = Embed(round=1, given={"model/w": Array.of(np.zeros(3))}, agreed=bytes(32))
    replace = msgspec.structs.replace
    others = [
        replace(ask, round=2),
        replace(ask, agreed=b"x" * 32),
        replace(ask, given={"model/w": Array.of(np.ones(3))}),
        replace(ask, given={"model/v": Array.of(np.zeros(3))}),
    ]
    assert len({one.stamp() for one in (ask, *others)}) == 5
    assert len(ask.stamp()) == 32
    assert decode(encode(ask), Embed).stamp() == ask.stamp()


def test_the_order_of_arrays_plays_no_part():
    one, other = Array.of(np.zeros(2)), Array.of(np.ones(2))
    assert hash_given({"a": one, "b": other}) == hash_given({"b": other, "a": one})


def test_the_receipt_says_nothing():
    assert Embedded.harmless
    with pytest.raises(DecodeError):
        decode(encode(Embed(round=0, given={}, agreed=bytes(32))).replace(bytes(32), bytes(31)), Embed)

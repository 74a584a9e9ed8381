"""What travels: a stamp for all that labels are read with, and no column of one site in the hash of all."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import Array, decode, encode
from fedgeom.methods.xclp.messages import Hashing, Reading, Rows, Spread
from fedgeom.protocols.secure_sum.messages import hash_question

READING = Reading(variant="ours", prior="em", counts=Array.of(np.array([1.0, 2.0])))


def test_a_stamp_tells_all_that_labels_are_read_with() -> None:
    same = msgspec.structs.replace(READING, counts=Array.of(np.array([1, 2], np.int32)))
    assert same.stamp(b"model") == READING.stamp(b"model")  # the counts, however they are written
    others = [
        READING.stamp(b"other"),
        msgspec.structs.replace(READING, variant="code").stamp(b"model"),
        msgspec.structs.replace(READING, prior="own").stamp(b"model"),
        msgspec.structs.replace(READING, counts=Array.of(np.array([2.0, 1.0]))).stamp(b"model"),
    ]
    assert len({READING.stamp(b"model"), *others}) == 5


def test_columns_are_each_sites_own_and_the_rest_of_the_question_is_everybodys() -> None:
    one = Spread(classes=("a",), layout={"s": (0, 2)}, columns=Array.of(np.zeros((2, 1), np.float32)))
    other = msgspec.structs.replace(one, columns=Array.of(np.ones((2, 2), np.float32)))
    assert hash_question(one) == hash_question(other)
    assert hash_question(one) != hash_question(msgspec.structs.replace(one, layout={"s": (0, 3)}))


@pytest.mark.parametrize(
    "change", [{"bits": 7}, {"bits": 12}, {"flip": 0.5}, {"seed": "A" * 60}, {"comparison": "no"}]
)
def test_hashing_out_of_bounds_is_not_read(change: dict[str, object]) -> None:
    whole = msgspec.to_builtins(Hashing(bits=64, flip=0.1, comparison="ot"))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(whole | change, Hashing)


@pytest.mark.parametrize("marks", [np.zeros(0, "u1"), np.ones((1, 3), "u1"), np.ones((), "u1"), np.ones(3, "f8")])
def test_an_answer_without_rows_or_of_another_shape_is_not_read(marks: np.ndarray) -> None:
    """No layout of ciphertexts holds no rows."""
    assert decode(encode(Rows(labelled=Array.of(np.ones(3, np.uint8)))), Rows).labelled.shape == (3,)
    body = {"labelled": {"dtype": marks.dtype.str[1:], "shape": marks.shape, "data": marks.tobytes()}}
    with pytest.raises(DecodeError, match="a mark"):
        decode(msgspec.msgpack.encode(body), Rows)

"""The messages of training: bounds that hold before a handler sees anything, and what the ledger says."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import Array, decode, encode
from fedgeom.methods.iterative.messages import Finish, Finished, TrainMasked, TrainOpen, Update
from fedgeom.methods.iterative.setup import BeginTraining, Ready, SumTrainingColumns
from fedgeom.methods.iterative.tree import Tree, from_wire, to_wire
from fedgeom.protocols.secure_sum.messages import SumResult

GIVEN = to_wire(Tree(model=Tree(w=np.arange(3.0), b=np.float32([1])), count=3, scale=0.5))
RESULT = SumResult(
    round=1, sites=("a",), total=Array.of(np.arange(5, dtype=np.uint64)), tag=Array.of(np.zeros(3, np.uint64))
)
USUAL = {
    TrainOpen: {"round": 0, "given": GIVEN, "agreed": bytes(32)},
    TrainMasked: {"round": 0, "given": GIVEN, "agreed": bytes(32), "factors": {"a": 1.0}},
    Update: {"sent": GIVEN, "weight": 2.0},
    Finish: {"given": GIVEN},
    Finished: {},
    BeginTraining: {"classes": ("a", "b"), "columns": RESULT},
    Ready: {},
    SumTrainingColumns: {},
}


@pytest.mark.parametrize("kind", USUAL)
def test_there_and_back(kind):
    message = kind(**USUAL[kind])
    assert decode(encode(message), kind) == message


def test_a_tree_comes_back_with_its_dtypes_and_numbers():
    back = from_wire(decode(encode(Finish(given=GIVEN)), Finish).given)
    assert back["model"]["b"].dtype == np.float32
    assert (back["count"], back["scale"]) == (3, 0.5)
    assert type(back["count"]) is int


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (TrainOpen, {"round": -1}),
        (TrainOpen, {"round": 2**31}),
        (TrainOpen, {"round": 0.5}),
        (TrainOpen, {"agreed": b"short"}),
        (TrainOpen, {"faster": ("",)}),
        (TrainOpen, {"given": {"": 1.0}}),
        (TrainOpen, {"given": {"x" * 201: 1.0}}),
        (TrainOpen, {"given": {"w": "text"}}),
        (TrainOpen, {"given": {"w": None}}),
        (TrainOpen, {"given": {"w": [1.0, 2.0]}}),
        (TrainOpen, {"given": {"w": True}}),
        (TrainMasked, {"factors": {"a": 1.5}}),
        (TrainMasked, {"factors": {"a": -0.1}}),
        (TrainMasked, {"factors": {"a": float("nan")}}),
        (Update, {"weight": -1.0}),
        (Update, {"figures": [1e13]}),
        (Update, {"figures": [float("nan"), 0.0]}),
        (Update, {"figures": [0.0] * 6}),
        (BeginTraining, {"classes": ("",)}),
        (Finish, {"more": 1}),
    ],
)
def test_out_of_bounds(kind, changes):
    fields = msgspec.msgpack.decode(encode(kind(**USUAL[kind])))
    assert decode(msgspec.msgpack.encode(fields), kind)
    body = msgspec.msgpack.encode(fields | changes)
    with pytest.raises(DecodeError, match=f"not a valid '{kind.kind}' message"):
        decode(body, kind)


def test_what_the_ledger_says():
    assert TrainMasked.answer_reveals.startswith(
        "masked; with all others of the group: the weighted sum of trained"
    )
    assert SumTrainingColumns.answer_reveals.startswith("masked; with all others")
    assert "this site's trained parameters" in TrainOpen.answer_reveals
    assert "this site's trained parameters" in Update.reveals
    assert Finished.reveals == "nothing: a receipt; a personal model stays at the site"

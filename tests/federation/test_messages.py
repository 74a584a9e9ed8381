"""What travels: only what is allowed, and nothing but `DecodeError` for what is not."""

from __future__ import annotations

import contextlib
from typing import ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import (
    DTYPES,
    VERSION,
    Array,
    Frame,
    Message,
    Question,
    Refusal,
    Waiting,
    decode,
    encode,
    pack,
    pack_body,
    read_answer,
    unpack,
)
from fedgeom.protocols.join.messages import (
    Ciphertexts,
    DrawRing,
    Hello,
    Letters,
    Meet,
    PublicKeys,
    RingNumber,
    Share,
)
from fedgeom.protocols.model_delivery import ModelTaken, TakeModel
from fedgeom.protocols.names import OpenNames, SealedNames, SealNames, Vocabulary
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    SumQuestion,
    Ticket,
    Unmask,
    UnmaskShares,
    Witness,
)
from tests.tiers import examples

RUN = bytes(range(32))


@pytest.mark.parametrize(
    "name", ["anna\n", "\x1b[2J", "a\tb", "a\x7f", "a\u202eb", "\u2066", "a\u2028", "\x85", ""]
)
def test_names_have_no_control_characters_and_end_where_they_should(name):
    with pytest.raises(DecodeError):
        unpack(pack_body(RUN, name, "kind", b""))
    with pytest.raises(DecodeError):
        decode(msgspec.msgpack.encode({"names": [name]}), Vocabulary)
    with pytest.raises(DecodeError):
        decode(msgspec.msgpack.encode({"sealed": {name: b""}}), OpenNames)
    with pytest.raises(DecodeError):
        decode(encode(SumQuestion(ticket=Ticket(modulus="7\n"))), SumQuestion)


@pytest.mark.parametrize("field", ["members", "participants", "alive", "dropped"])
@pytest.mark.parametrize("name", ["anna\n", "\x1b[2J", "a\u202eb", "\u2066", "a\u2028", "\x85", "", "a" * 201])
def test_lists_of_all_sites_have_no_such_names_either(name, field):
    lists = {"members": ["b"], "participants": ["b"], "alive": ["b"], "dropped": []} | {field: ["b", name, "c"]}
    ticket = {key: lists[key] for key in ("members", "participants")}
    living = {"round": 0, **{key: lists[key] for key in ("alive", "dropped")}}
    witness = {**living, **ticket, "question_hash": bytes(32), "content": bytes(32)}
    wrong = [({"ticket": ticket}, SumQuestion)] if field in ticket else [(living, Confirm)]
    wrong += [] if field in ticket else [({**living, "signatures": {}, "masked": {}}, Unmask)]
    for body, kind in [*wrong, (witness, Witness)]:
        with pytest.raises(DecodeError):
            decode(msgspec.msgpack.encode(body), kind)


@pytest.mark.parametrize("name", ["anna", "St. Mary's", "T-Zelle β", "細胞 1", "a\u00a0b"])
def test_usual_names_travel(name):
    assert unpack(pack_body(RUN, name, "kind", b"")).method == name
    assert decode(encode(Vocabulary(names=(name,))), Vocabulary).names == (name,)
    assert decode(encode(Confirm(round=0, alive=(name,), dropped=())), Confirm).alive == (name,)


class Carry(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.carry"
    array: Array
    names: tuple[str, ...] = ()


def keys() -> PublicKeys:
    return PublicKeys(
        letters=bytes(32),
        kem=bytes(1184),
        masks=(bytes(32),),
        seals=(bytes(32),),
        columns=2,
        ring_commit=bytes(32),
        min_cohort=3,
        min_difference=0,
        signature=bytes(64),
    )


def samples() -> list[Message]:
    return [
        Carry(array=Array.of(np.arange(6.0).reshape(2, 3)), names=("a", "b")),
        Refusal(reason="no"),
        Hello(
            rounds=2,
            seed=5,
            terms={"a": 1, "b": None, "c": "x", "d": 0.5, "e": True, "f": ("x", "y"), "g": {"name": "z", "h": 2}},
            participants=("a", "b"),
        ),
        Waiting(),
        keys(),
        Meet(cohort={"a": keys(), "b": keys()}, numbers={"a": bytes(32), "b": bytes(32)}, draw=1),
        Ciphertexts(ciphertexts={"a": bytes(1088)}),
        Share(ciphertexts={"a": bytes(1088)}),
        Letters(letters={"a": b"123"}, needed=2, locked=(bytes(64),)),
        MaskedVector(vector=Array.of(np.arange(3, dtype=np.uint64)), signature=bytes(64)),
        Confirm(round=0, alive=("a",), dropped=("b",)),
        Unmask(round=0, alive=("a",), dropped=("b",), signatures={"a": bytes(64)}, masked={"a": bytes(64)}),
        UnmaskShares(self_shares={"a": bytes(33)}, mask_shares={}, proofs={"b": bytes(16)}),
        SumQuestion(ticket=Ticket(round=1, modulus="7", members=("a", "b"), participants=("a",))),
        Witness(
            round=0, question_hash=RUN, content=RUN, members=("a",), participants=("b",), alive=("b",), dropped=()
        ),
        DrawRing(cohort={"a": keys(), "b": keys()}, draw=3),
        RingNumber(number=RUN),
        Confirmation(signature=bytes(64)),
        SealNames(participants=("a", "b"), letters={"b": b"123"}),
        SealedNames(names=b"123"),
        OpenNames(sealed={"a": b"123"}),
        Vocabulary(names=("x", "y")),
        TakeModel(model=b"123"),
        ModelTaken(),
    ]


@examples(80)
@given(
    st.sampled_from(sorted(DTYPES)).flatmap(
        lambda d: hnp.arrays(np.dtype(DTYPES[d]), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    )
)
def test_arrays_survive_the_journey(array: np.ndarray) -> None:
    back = decode(encode(Carry(array=Array.of(array))), Carry).array.numpy()
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable


def test_byte_order_and_strides_do_not_travel() -> None:
    array = np.arange(12, dtype=">u4").reshape(3, 4)[:, ::2]
    assert (Array.of(array).numpy() == array).all()
    assert Array.of(array) == Array.of(np.ascontiguousarray(array.astype("<u4")))


@pytest.mark.parametrize(
    "array", [np.array(["a"]), np.array([None]), np.zeros(2, complex), np.zeros(2, bool), np.zeros(2, np.float16)]
)
def test_other_dtypes_do_not_travel(array: np.ndarray) -> None:
    with pytest.raises(TypeError, match="do not travel"):
        Array.of(array)


def wire(dtype: object, shape: object, data: object) -> bytes:
    return msgspec.msgpack.encode({"array": {"dtype": dtype, "shape": shape, "data": data}})


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [
        ("O", [1], bytes(8)),
        ("O8", [1], bytes(8)),
        ("<u8", [1], bytes(8)),
        ("V8", [1], bytes(8)),
        ("", [1], bytes(8)),
        ("u8", [2], bytes(8)),
        ("u8", [1], bytes(9)),
        ("u8", [], b""),
        ("u8", [-1], b""),
        ("u8", [1.5], bytes(8)),
        ("u8", [2**40], bytes(8)),
        ("u8", [2**39, 2**39, 2**39, 2**39], bytes(8)),
        ("u8", [2**32, 2**32], bytes(8)),
        ("u8", [0, 2**39, 2**39, 2**39], b""),
        ("u8", [0, 2**39], b""),
        ("u8", [1, 1, 1, 1, 1], bytes(8)),
        ("u8", "1", bytes(8)),
        ("u8", [1], "12345678"),
        (None, [1], bytes(8)),
    ],
)  # fmt: skip
def test_arrays_that_lie_about_themselves_are_refused(dtype: object, shape: object, data: object) -> None:
    with pytest.raises(DecodeError, match="not a valid"):
        decode(wire(dtype, shape, data), Carry)


def test_empty_arrays_travel() -> None:
    assert decode(wire("f8", [0, 3], b""), Carry).array.numpy().shape == (0, 3)


def test_unknown_and_missing_fields_are_refused() -> None:
    with pytest.raises(DecodeError, match="unknown field"):
        decode(msgspec.msgpack.encode({"reason": "x", "more": 1}), Refusal)
    with pytest.raises(DecodeError, match="missing required field"):
        decode(msgspec.msgpack.encode({}), Refusal)
    with pytest.raises(DecodeError):
        decode(encode(Refusal(reason="x")) + b"\x00", Refusal)


@pytest.mark.parametrize("message", samples(), ids=lambda m: m.kind)
def test_every_message_survives_its_frame(message: Message) -> None:
    frame = unpack(pack(RUN, "method", message))
    assert (frame.version, frame.run, frame.method, frame.kind) == (VERSION, RUN, "method", message.kind)
    assert decode(frame.body, type(message)) == message


def test_a_frame_above_the_limit_is_not_read() -> None:
    data = pack(RUN, "method", Refusal(reason="x"))
    unpack(data, limit=len(data))
    with pytest.raises(DecodeError, match="the limit is"):
        unpack(data, limit=len(data) - 1)


def test_another_version_is_named_and_refused() -> None:
    with pytest.raises(DecodeError, match=f"version 99; this end speaks {VERSION}"):
        unpack(msgspec.msgpack.encode(Frame(99, RUN, "m", "k", b"")))


@pytest.mark.parametrize(
    "change",
    [{"run": bytes(31)}, {"method": ""}, {"kind": "k" * 201}, {"body": "text"}, {"version": "1"}, {"extra": 1}],
)
def test_a_frame_with_a_wrong_field_is_refused(change: dict[str, object]) -> None:
    good = {"version": VERSION, "run": RUN, "method": "m", "kind": "k", "body": b""}
    unpack(msgspec.msgpack.encode(good))
    with pytest.raises(DecodeError, match="not a fedgeom frame"):
        unpack(msgspec.msgpack.encode(good | change))


def test_an_answer_is_what_was_asked_for_or_a_refusal() -> None:
    carry = Carry(array=Array.of([1]))
    assert read_answer(unpack(pack(RUN, "m", carry)), Carry) == carry
    assert read_answer(unpack(pack(RUN, "m", Refusal(reason="x"))), Carry) == Refusal(reason="x")
    with pytest.raises(DecodeError, match=r"answered with 'test.carry' where 'sum.masked'"):
        read_answer(unpack(pack(RUN, "m", carry)), MaskedVector)


def test_the_head_of_a_class_says_what_its_messages_are():
    class Told(Message, kind="test.told", harmless=True):
        number: int = 0

    class Tell(Question, kind="test.tell", answer=Told):
        text: str

    assert (Told.kind, Told.harmless, Told.reveals) == ("test.told", True, "nothing")
    assert (Tell.kind, Tell.answer, Tell.harmless) == ("test.tell", Told, False)
    assert decode(encode(Tell(text="a")), Tell) == Tell(text="a")
    with pytest.raises(TypeError):
        Tell("a")  # made by keywords
    with pytest.raises(AttributeError, match="immutable"):
        Told().number = 1  # type: ignore[misc]
    with pytest.raises(DecodeError, match="unknown field"):
        decode(encode(Tell(text="a")), Told)
    with pytest.raises(TypeError, match="harmles"):

        class Misspelt(Message, kind="test.misspelt", harmles=True):
            pass


def test_a_message_must_state_its_kind() -> None:
    with pytest.raises(TypeError, match="must state its `kind`"):

        class Nameless(Question, frozen=True, kw_only=True):
            pass


@pytest.mark.parametrize("modulus", ["", "0", "-5", "abc", "1e3", " 7", "7_0", "٣", "9" * 21, "0x10"])
def test_a_ticket_takes_decimal_moduli_only(modulus: str) -> None:
    good = {"round": 0, "modulus": "7", "members": ["a"], "participants": ["a"]}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(good), type=Ticket).ring.modulus == 7
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(good | {"modulus": modulus}), type=Ticket)


HUGE = [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"]
DEEP = b"\x91" * 100_000


@pytest.mark.parametrize("data", [*HUGE, DEEP, b"\x81\xa6reason" + DEEP, b"", b"\xc1"])
def test_bombs_end_in_decode_errors(data: bytes) -> None:
    with pytest.raises(DecodeError):
        unpack(data)
    for message in samples():
        with pytest.raises(DecodeError):
            decode(data, type(message))


def opened(data: bytes) -> list[Message]:
    """Open bytes as everything we know; only `DecodeError` may come out. What could be opened is returned."""
    found: list[Message] = []
    with contextlib.suppress(DecodeError):
        unpack(data)
    for kind in {type(message) for message in samples()}:
        try:
            message = decode(data, kind)
        except DecodeError:
            continue
        for value in (getattr(message, "array", None), getattr(message, "vector", None)):
            if isinstance(value, Array):
                value.numpy()
        found.append(message)
    return found


def same_when_sent_again(messages: list[Message]) -> bool:
    """Say whether what was read, however it came, is written and read as the same."""
    return all(encode(decode(encode(one), type(one))) == encode(one) for one in messages)


@examples(200)
@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_decode_errors(data: bytes) -> None:
    assert same_when_sent_again(opened(data))


@examples(300)
@given(
    which=st.integers(0, len(samples()) - 1),
    framed=st.booleans(),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from("scd")), max_size=4),
)
def test_mutated_messages_raise_nothing_but_decode_errors(
    which: int, framed: bool, edits: list[tuple[int, int, str]]
) -> None:
    message = samples()[which]
    data = bytearray(pack(RUN, "m", message) if framed else encode(message))
    for at, value, how in edits:
        at %= max(len(data), 1)
        if how == "s" and data:
            data[at] = value
        elif how == "c":
            del data[at:]
        else:
            data.insert(at, value)
    assert same_when_sent_again(opened(bytes(data)))


def test_an_array_that_came_is_read_in_place_and_cannot_be_written_to() -> None:
    packed = msgspec.msgpack.encode(Array.of(np.arange(5, dtype=np.uint64)))
    came = msgspec.msgpack.decode(packed, type=Array)
    assert np.shares_memory(came.view(), np.frombuffer(packed, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        came.view()[0] = 1
    came.numpy()[0] = 1
    assert came.view().tolist() == [0, 1, 2, 3, 4]


def test_a_packed_array_does_not_follow_later_changes() -> None:
    array = np.zeros(3)
    packed = Array.of(array)
    array[0] = 1
    assert packed.numpy().tolist() == [0, 0, 0]

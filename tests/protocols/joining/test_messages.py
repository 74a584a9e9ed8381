"""What both halves of joining compute from messages: statements, hashes, numbers and seed contributors."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import decode, encode
from fedgeom.federation.policy import hash_terms, job_terms
from fedgeom.protocols.join.messages import (
    MOST_ROUNDS,
    SEED_CONTRIBUTORS,
    Hello,
    PublicKeys,
    cohort_seed,
    holder_numbers,
    seal_of,
    seed_contributors,
)
from tests.tiers import examples

RUN = bytes(range(32))
POLICY = {"ring_commit": bytes(32), "min_cohort": 3, "min_difference": 0}


def keys(n: int = 1, **changes: Any) -> PublicKeys:
    fields: dict[str, Any] = {
        "letters": bytes([n]) * 32,
        "kem": bytes(1184),
        "masks": (bytes(32),),
        "seals": (bytes(32),),
    }
    return PublicKeys(**(fields | {"columns": 2, "signature": bytes(64)} | POLICY | changes))


def test_a_statement_covers_every_field_but_the_signature() -> None:
    same = keys().statement(RUN, "a", b"terms")
    assert keys(signature=b"\x01" * 64).statement(RUN, "a", b"terms") == same
    others = [
        keys(letters=b"\x09" * 32),
        keys(kem=b"\x01" * 1184),
        keys(masks=(b"\x01" * 32,)),
        keys(seals=(b"\x01" * 32,)),
        keys(columns=3),
        keys(columns_hash=b"\x01" * 32),
        keys(ring_commit=b"\x01" * 32),
        keys(min_cohort=4),
        keys(min_difference=3),
        keys(masks=(bytes(32), bytes(32)), seals=()),  # as many keys in all, dealt otherwise
    ]
    statements = {other.statement(RUN, "a", b"terms") for other in others}
    statements |= {keys().statement(bytes(32), "a", b"terms"), keys().statement(RUN, "b", b"terms")}
    statements |= {keys().statement(RUN, "a", b"others")}
    assert len(statements | {same}) == len(others) + 4


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), min_size=1, max_size=5)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31),
    FINITE,
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=3).map(tuple),
    st.dictionaries(NAMES, FINITE, max_size=2),
)
TERMS = st.dictionaries(NAMES, VALUES, max_size=4)


@examples(100)
@given(TERMS, st.integers(-(2**31), 2**31))
def test_terms_hash_the_same_on_both_ends_of_the_wire_and_in_any_order(terms: dict[str, Any], seed: int) -> None:
    read = decode(encode(Hello(rounds=1, terms=terms, seed=seed, participants=("a", "b"))), Hello)
    there = hash_terms(job_terms("m", terms, seed, ["b", "a"]))
    assert hash_terms(read.job("m")) == there
    assert hash_terms(job_terms("m", dict(reversed(terms.items())), seed, ["a", "b"])) == there


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": MOST_ROUNDS + 1},
        {"rounds": -1},
        {"release": "1" * 51},
        {"seed": "0"},
        {"terms": {"": 1}},
        {"terms": {"a": "x" * 1001}},
        {"terms": {"a": [[1]]}},
        {"terms": {"a": ["x"] * 10_001}},
        {"terms": {"a": {"b": [["x"]]}}},
        {"terms": {"a": {"b": {"c": 1}}}},
        {"terms": {str(n): n for n in range(101)}},
    ],
)
def test_an_invitation_has_bounds(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"rounds": MOST_ROUNDS, "terms": {"a": ["x", 1], "b": {"c": [1, 28]}, "d": None}}
    assert decode(msgspec.msgpack.encode(good), Hello).terms == {"a": ("x", 1), "b": {"c": (1, 28)}, "d": None}
    with pytest.raises(DecodeError):
        decode(msgspec.msgpack.encode(good | change), Hello)


def test_a_seal_is_a_hash_and_not_the_seed() -> None:
    assert len({seal_of(bytes(32)), seal_of(b"\x01" * 32), bytes(32), hashlib.sha256(bytes(32)).digest()}) == 4
    assert seal_of(bytes(32)) == seal_of(bytes(32))


def test_holders_are_numbered_from_one_and_the_cohort_decides() -> None:
    cohort = {f"s{i}": keys(i) for i in range(9)}
    numbers = holder_numbers(cohort, cohort_seed(RUN, cohort))
    assert sorted(numbers.values()) == list(range(1, 10))
    assert holder_numbers(dict(reversed(cohort.items())), cohort_seed(RUN, cohort)) == numbers
    seeds = {
        cohort_seed(RUN, cohort),
        cohort_seed(bytes(32), cohort),
        cohort_seed(RUN, cohort, {"s0": bytes(32)}),
        cohort_seed(RUN, cohort, {"s0": b"\x01" * 32}),
        cohort_seed(RUN, cohort, {"s0": bytes(32)}, 1),
        cohort_seed(RUN, cohort | {"s0": keys(77)}),
        cohort_seed(RUN, {name: cohort[name] for name in list(cohort)[1:]}),
    }
    assert len(seeds) == 7


def test_everybody_contributes_to_the_seed_while_everybody_writes_to_everybody() -> None:
    few, many = [str(i) for i in range(40)], [str(i) for i in range(200)]
    assert list(seed_contributors(few)) == few
    assert list(seed_contributors(many)) == many[:SEED_CONTRIBUTORS]


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("where", [lambda x: x, lambda x: [x], lambda x: {"b": x}, lambda x: [{"b": {"c": [x]}}]])
def test_terms_with_a_number_that_cannot_be_shown_are_no_invitation(bad: float, where: Any) -> None:
    """They would wait for a steward's approval, who is shown null."""
    body = {"rounds": 1, "terms": {"a": where(1.0)}}
    assert decode(msgspec.msgpack.encode(body), Hello).rounds == 1
    with pytest.raises(DecodeError, match="infinite or NaN"):
        decode(msgspec.msgpack.encode(body | {"terms": {"a": where(bad)}}), Hello)

"""Lists of names: what is read is what was encoded, and the very same list each time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.protocols.join.site import NO_NAMES, in_order, name_set, pack_names, read_names

NAMES = st.lists(st.text(min_size=1, max_size=12), max_size=30).map(tuple)


@given(NAMES)
def test_what_is_read_is_what_was_encoded(names: tuple[str, ...]) -> None:
    packed = pack_names(names)
    assert read_names(packed) == names
    assert read_names(memoryview(bytes(packed))) is read_names(packed) or not names


@given(NAMES)
def test_order_and_set_are_those_of_the_definition(names: tuple[str, ...]) -> None:
    assert name_set(names) == set(names)
    assert in_order(names) == all(one < other for one, other in pairwise(names))


def test_no_names_are_no_bytes() -> None:
    assert bytes(pack_names(())) == bytes(NO_NAMES) == b""
    assert read_names(NO_NAMES) == ()
    assert in_order(())


@pytest.mark.parametrize("names", [("b", "a"), ("a", "a"), ("a", "b", "a")])
def test_names_out_of_order_or_given_twice_are_noticed(names: tuple[str, ...]) -> None:
    assert not in_order(names)

"""A cohort as bytes: read as it was written, and refused where a signature, or a number of the ring, does not fit."""

from __future__ import annotations

import msgspec
import pytest

from fedgeom.errors import ProtocolError
from fedgeom.protocols.join.site import broken_commitments, hash_each, pack_cohort, read_cohort, verify_cohort
from tests.protocols.lying import Lying, replace


def test_a_cohort_is_read_as_it_was_written_whatever_its_order() -> None:
    keys = Lying().hello().keys
    assert read_cohort(pack_cohort(keys)) == keys
    assert pack_cohort(dict(reversed(keys.items()))) == pack_cohort(keys)
    with pytest.raises(TypeError):
        read_cohort(pack_cohort(keys))["s0000"] = keys["s0001"]  # type: ignore[index]


def test_each_site_has_a_hash_of_its_own() -> None:
    keys = Lying().hello().keys
    before = hash_each(pack_cohort(keys))
    assert len(set(before.values())) == len(keys)
    keys["s0001"] = replace(keys["s0001"], columns=keys["s0001"].columns + 1)
    after = hash_each(pack_cohort(keys))
    assert [name for name in keys if before[name] != after[name]] == ["s0001"]


def test_a_signature_for_other_terms_or_by_another_is_refused_each_time() -> None:
    lie = Lying().hello()
    site = lie.as_site("s0000")
    roster, terms = tuple(site.identity.roster.items()), site.joining.memory.terms_hash
    verify_cohort(roster, lie.run, terms, pack_cohort(lie.keys))
    swapped = dict(roster) | {"s0001": dict(roster)["s0002"]}
    for wrong in (
        (roster, bytes(32), terms),
        (roster, lie.run, bytes(32)),
        (tuple(swapped.items()), lie.run, terms),
    ):
        for _ in range(2):  # a failure is not remembered as a success
            with pytest.raises(ProtocolError, match="is not valid"):
                verify_cohort(*wrong, pack_cohort(lie.keys))


def test_numbers_that_were_not_committed_to_are_found() -> None:
    lie = Lying().hello()
    packed = pack_cohort(lie.keys)
    numbers = msgspec.msgpack.encode(dict.fromkeys(lie.keys, bytes(32)))
    assert broken_commitments(packed, numbers, 0) == tuple(sorted(lie.keys))

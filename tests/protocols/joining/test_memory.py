"""What a site remembers of joining survives as bytes, secrets and all."""

from __future__ import annotations

import msgspec

from fedgeom.protocols.join.site import JoinMemory
from tests.protocols.lying import ME, Lying


def test_a_new_site_remembers_nothing() -> None:
    blank = JoinMemory()
    assert not any(getattr(blank, name) for name in JoinMemory.__struct_fields__)


def test_a_site_that_joined_finds_everything_again_in_another_process() -> None:
    joined = Lying(4).hello().share().memory(ME).joining
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(joined), type=JoinMemory)
    assert again == joined
    assert len(again.mask_secrets) == len(again.self_seeds) == len(again.sums)
    assert set(again.cohort) == {*again.peers, ME}

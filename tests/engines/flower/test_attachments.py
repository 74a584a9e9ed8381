"""Parts that travel with a message: read back as they were, and skipped by who does not know them."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from flwr.proto.fleet_pb2 import PushMessagesResponse

from fedgeom.engines.flower.carrier import attach, detach

FLOWERS = PushMessagesResponse(objects_to_push=["a", "b"], session_id="s")


@pytest.mark.parametrize("parts", [{}, {"a": b""}, {"a": b"\x00" * 300, "b": b"x"}])
@pytest.mark.parametrize("received", [(), ("m", "n")])
def test_what_is_attached_is_detached_and_flower_reads_its_own_message(
    parts: dict[str, bytes], received: tuple[str, ...]
) -> None:
    data = attach(FLOWERS.SerializeToString(), parts, received)
    found = detach(data)
    assert (found.parts, found.received) == (parts, set(received))
    read = PushMessagesResponse.FromString(data)
    assert (list(read.objects_to_push), read.session_id) == (["a", "b"], "s")


def test_nothing_is_attached_to_a_message_of_flowers_own() -> None:
    found = detach(FLOWERS.SerializeToString())
    assert (found.parts, found.received) == ({}, set())


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(ValueError, match="not a protobuf message"):
        detach(b"\xff\xff")

"""What a run takes of messages and memory."""

from __future__ import annotations

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.engines import check
from fedgeom.engines.check import MessageSizes
from fedgeom.federation.policy import Policy

SITES = [SiteData("a", np.zeros((2, 3)), ["x", "y"])]


def test_messages_are_spoken_of_by_their_size():
    limit = Policy().max_message_bytes
    assert [one.level for one in check.size_faults(MessageSizes(limit + 1, 1, "a.sum"), SITES, Policy())] == [
        "error"
    ]
    assert [
        one.level for one in check.size_faults(MessageSizes(1, check.ANNOUNCED, "a.sum"), SITES, Policy())
    ] == ["note"]
    assert check.size_faults(MessageSizes(1, 1, "a.sum"), SITES, Policy()) == []


def test_memory_is_spoken_of_where_there_is_too_little(monkeypatch):
    assert check.memory_findings(SITES, None) == []
    monkeypatch.setattr(check, "free_memory", lambda: 10)
    assert [one.level for one in check.memory_findings(SITES, None)] == ["warning"]

"""What the kernel says of free memory, and what it is written as."""

from __future__ import annotations

import sys

import pytest

from fedgeom.data import rows


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory is free")
def test_there_is_some_memory_and_not_more_than_the_machine_has():
    total = rows._field(rows.Path("/proc/meminfo"), "MemTotal:")
    assert 0 < rows.free_memory() <= total


def test_a_group_allows_what_it_has_left(tmp_path):
    assert rows._of_group(tmp_path) is None
    (tmp_path / "memory.current").write_text("300\n")
    for most, left in (("1000", 700), ("max", None), ("200", 0)):
        (tmp_path / "memory.max").write_text(f"{most}\n")
        assert rows._of_group(tmp_path) == left


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what numpy asks for")
def test_the_process_s_own_limit_counts(monkeypatch):
    assert rows._of_process() is None or rows._of_process() >= 0
    used = rows._field(rows.Path("/proc/self/status"), "VmData:")
    limits = {rows.resource.RLIMIT_DATA: (used + 2**30, -1), rows.resource.RLIMIT_AS: (-1, -1)}
    monkeypatch.setattr(rows.resource, "getrlimit", limits.__getitem__)
    assert 0.9 * 2**30 < rows.free_memory() < 1.1 * 2**30

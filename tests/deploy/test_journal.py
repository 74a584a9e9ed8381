"""A site's files: the last memory counts, nothing is lost in a crash, one process at a time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import stat
import time

import msgspec
import pytest

from fedgeom.deploy.journal import (
    KEEP_SECONDS,
    LONGEST,
    TAIL,
    Journal,
    LocalEntry,
    StoredMemory,
)
from fedgeom.errors import ProtocolError
from fedgeom.storage import DRAFT

RUN, OTHER = b"r" * 32, b"o" * 32


def entry(run=RUN, **changes):
    plain = {
        "time": time.time(),
        "run": run.hex(),
        "method": "hulls",
        "question": "join.hello",
        "answer": "join.keys",
        "received": 10,
        "sent": 20,
        "reveals": "keys",
    }
    return LocalEntry(**(plain | changes))


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path)


def test_each_run_has_a_memory_of_its_own(journal):
    journal.keep(RUN, StoredMemory(2, b"disk"))
    assert journal.newest(RUN) == StoredMemory(2, b"disk")
    assert journal.newest(OTHER) == StoredMemory(0, b"")


def test_a_memory_is_private_and_never_half_written(journal, tmp_path):
    journal.keep(RUN, StoredMemory(1, b"secret"))
    (file,) = (tmp_path / "memory").glob("*.bin")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.with_name(file.name + DRAFT).write_bytes(b"half")  # a crash while the next one was written
    assert journal.newest(RUN).memory == b"secret"
    journal.keep(RUN, StoredMemory(2, b"next"))
    assert journal.newest(RUN).memory == b"next"


def test_the_last_whole_memory_counts_wherever_the_machine_stopped(journal, tmp_path):
    file = tmp_path / "memory" / f"{RUN.hex()}.bin"
    journal.keep(RUN, StoredMemory(1, b"first"))
    one = len(file.read_bytes())
    journal.keep(RUN, StoredMemory(2, b"second"))
    both = file.read_bytes()
    for cut in range(one, len(both)):  # the answer to the second question has not left
        file.write_bytes(both[:cut])
        assert journal.newest(RUN) == StoredMemory(1, b"first")
        journal.keep(RUN, StoredMemory(2, b"other"))
        assert journal.newest(RUN) == StoredMemory(2, b"other")
    for cut in range(1, one):  # the first is written at once, or not at all
        file.write_bytes(both[:cut])
        with pytest.raises(ProtocolError, match="damaged"):
            journal.newest(RUN)
    for at in range(len(both)):
        file.write_bytes(both[:at] + bytes([both[at] ^ 1]) + both[at + 1 :])
        kept = None
        with contextlib.suppress(ProtocolError):
            kept = journal.newest(RUN)
        assert kept in (None, StoredMemory(1, b"first")), at  # a length that became too long looks like a crash


def test_a_file_of_memories_stays_short_and_keeps_no_secret_that_the_site_let_go_of(journal, tmp_path):
    file = tmp_path / "memory" / f"{RUN.hex()}.bin"
    for count in range(1, 100):
        journal.keep(RUN, StoredMemory(count, b"m" * 20_000))
        assert journal.newest(RUN).count == count
        assert file.stat().st_size <= LONGEST
    journal.keep(RUN, StoredMemory(100, b"the secret of the masks"))
    journal.keep(RUN, StoredMemory(101, b"left"))
    assert b"secret" not in file.read_bytes()
    large = b"x" * 2_000_000
    for count in range(102, 112):
        journal.keep(RUN, StoredMemory(count, large))
        assert file.stat().st_size <= 5 * len(large)
    assert journal.newest(RUN) == StoredMemory(111, large)


def test_a_memory_of_an_earlier_release_is_read_and_gone_on_with(journal, tmp_path):
    (tmp_path / "memory").mkdir()
    file = tmp_path / "memory" / f"{RUN.hex()}.bin"
    file.write_bytes(msgspec.msgpack.encode(StoredMemory(4, b"old")))
    assert journal.newest(RUN) == StoredMemory(4, b"old")
    journal.keep(RUN, StoredMemory(5, b"new one"))
    journal.keep(RUN, StoredMemory(6, b"another"))
    assert journal.newest(RUN) == StoredMemory(6, b"another")


def test_no_memory_is_written_through_a_link(journal, tmp_path):
    journal.keep(RUN, StoredMemory(1, b"x"))
    file = tmp_path / "memory" / f"{RUN.hex()}.bin"
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    journal.keep(RUN, StoredMemory(2, b"y"))
    assert elsewhere.read_bytes() == before
    assert journal.newest(RUN) == StoredMemory(2, b"y")
    assert not file.is_symlink()


def test_the_ledger_is_private_also_where_an_older_version_left_it_open(journal, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_bytes(b"")
    ledger.chmod(0o644)
    journal.enter(entry())
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600
    assert len(journal.entries()) == 1


def test_damage_is_said_not_ignored(journal, tmp_path):
    journal.keep(RUN, StoredMemory(1, b"x"))
    (file,) = (tmp_path / "memory").glob("*.bin")
    file.write_bytes(b"\xff\xff")
    with pytest.raises(ProtocolError, match="damaged"):
        journal.newest(RUN)


def test_the_ledger_survives_a_line_cut_off(journal, tmp_path):
    journal.enter(entry(question="one"))
    with (tmp_path / "ledger.jsonl").open("ab") as file:
        file.write(b'{"time": 1, "run": "\xff')
    journal.enter(entry(question="two"))
    assert [e.question for e in journal.entries()] == ["one", "two"]


def test_reading_on(journal, tmp_path):
    assert journal.since(0) == ([], 0)
    journal.enter(entry(question="one"))
    first, at = journal.since(0)
    journal.enter(entry(question="two"))
    with (tmp_path / "ledger.jsonl").open("ab") as file:
        file.write(b"{")  # just being written
    second, end = journal.since(at)
    assert [e.question for e in (*first, *second)] == ["one", "two"]
    assert journal.since(end) == ([], end)


def test_how_often(journal):
    journal.enter(entry(OTHER, time=time.time() - 25 * 3600))
    journal.check_rate_limit(RUN, 1)
    journal.enter(entry(RUN))
    journal.check_rate_limit(RUN, 1)  # a run that began goes on
    with pytest.raises(ProtocolError, match="1 runs in the last 24 hours; its policy allows 1"):
        journal.check_rate_limit(OTHER, 1)
    journal.enter(entry(OTHER, answer="refusal", counts=False))
    with pytest.raises(ProtocolError):  # asking again is no way in
        journal.check_rate_limit(OTHER, 1)
    with pytest.raises(ProtocolError):
        journal.check_rate_limit(b"n" * 32, 0)


def test_of_a_run_that_goes_on_only_the_end_of_a_long_ledger_is_read(journal, monkeypatch):
    """A site that has run for years answers as quickly as a new one; a run that is new is counted over all lines."""
    journal.enter(entry(OTHER))
    for _ in range(2 * TAIL // 200):
        journal.enter(entry(RUN))
    read = []
    lines = Journal._lines
    monkeypatch.setattr(Journal, "_lines", lambda self, start: (read.append(start), lines(self, start))[1])
    journal.check_rate_limit(RUN, 1)
    assert len(read) == 1
    assert read[0] > TAIL
    with pytest.raises(ProtocolError, match="2 runs in the last 24 hours; its policy allows 2"):
        journal.check_rate_limit(b"n" * 32, 2)
    assert read[-1] == 0


def test_old_memories_are_forgotten(journal, tmp_path):
    journal.forget_old()
    journal.keep(RUN, StoredMemory(1, b"x"))
    journal.keep(OTHER, StoredMemory(1, b"y"))
    draft = tmp_path / "memory" / f"{OTHER.hex()}.bin{DRAFT}"
    draft.write_bytes(b"half")
    past = time.time() - KEEP_SECONDS - 10
    for file in (tmp_path / "memory" / f"{RUN.hex()}.bin", draft):
        os.utime(file, (past, past))
    journal.forget_old()
    assert not draft.exists()
    assert journal.newest(RUN) == StoredMemory(0, b"")
    assert journal.newest(OTHER) == StoredMemory(1, b"y")


def _add_one(folder, times):
    journal = Journal(folder)
    for _ in range(times):
        with journal.exclusive():
            kept = journal.newest(RUN)
            time.sleep(0.001)
            journal.keep(RUN, StoredMemory(kept.count + 1, b""))


def test_processes_take_turns(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_add_one, args=(tmp_path, 20)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert Journal(tmp_path).newest(RUN).count == 40


def test_entries_of_older_ledgers_are_read(tmp_path):
    old = {"time": 1.0, "run": "00", "method": "hulls", "question": "q", "answer": "a", "received": 1, "sent": 2}
    (tmp_path / "ledger.jsonl").write_bytes(msgspec.json.encode(old | {"reveals": ""}) + b"\n")
    (entry,) = Journal(tmp_path).entries()
    assert entry.counts
    assert entry.note == ""


def test_a_name_from_elsewhere_cannot_rule_the_stewards_terminal(tmp_path):
    journal = Journal(tmp_path)
    entry = LocalEntry(
        time=1.0, run="ab", method="m\x1b[2J", question="q\x07", answer="none", received=1, sent=0, reveals=""
    )
    journal.enter(entry)
    (found,) = journal.entries()
    assert (found.method, found.question) == ("m\\x1b[2J", "q\\x07")

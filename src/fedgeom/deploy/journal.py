"""What a site keeps on its own disk: its memory of running conversations, and its own ledger.

A site's memory is written *before* an answer leaves: it outlives crashes, it lets a run be resumed, and it is why a
mask is never used twice.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from fedgeom.errors import ProtocolError, printable
from fedgeom.federation.messages import Refusal, Waiting
from fedgeom.storage import append_line, locked, make_private_folder, write_behind, write_file

KEEP_SECONDS = 14 * 24 * 3600
"""How long the memory of an unfinished run is kept: longer than a coordinator waits for approvals."""

CHARGED = "budget.charge"
"""What a line of the site's ledger says it is about when a run was charged to the privacy budget."""

TAIL = 64 * 1024
"""How many of the ledger's last bytes are looked at first."""

FRAME = b"fgm1"
"""What each memory in a file begins with."""
LONGEST = 256 * 1024
MOST_KEPT = 4
"""A run's file has so many bytes at most, or so many memories of the last one's size if that is more."""


class LocalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One question and its answer, as the site saw them."""

    time: float
    run: str
    method: str
    question: str
    answer: str
    received: int
    sent: int
    reveals: str
    note: str = ""
    """Why the site refused, in words that may quote its data: they stay here."""
    counts: bool = True
    """Whether the run counts as one of the day's; one that was turned away at the door does not."""
    begun: bool = False
    """Whether this was written before the work. It stands for the question until its outcome is written too; a process
    that dies in between leaves it."""

    def precedes(self, other: LocalEntry) -> bool:
        """Say whether another entry is the outcome of what this one says was begun."""
        return self.begun and not other.begun and (self.run, self.question) == (other.run, other.question)


class StoredMemory(msgspec.Struct, frozen=True):
    """A memory, and how many there were before it."""

    count: int
    memory: bytes


class Journal:
    """A site's own files."""

    def __init__(self, folder: Path):
        self._folder = folder / "memory"
        self._ledger = folder / "ledger.jsonl"

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other processes of this site from answering meanwhile: two could use one mask for two questions."""
        make_private_folder(self._folder)
        return locked(self._folder / "lock")

    def newest(self, run: bytes) -> StoredMemory:
        """Return what the site remembers of a run; of a new one, nothing."""
        file = self._file(run)
        return _last_kept(file.read_bytes())[0] if file.is_file() else StoredMemory(0, b"")

    def keep(self, run: bytes, kept: StoredMemory) -> None:
        """Write a memory to disk behind the ones before it: one wait for the disk, where a new file takes three.

        A file begins anew when it has become long, and when the memory is shorter than the one before it: secrets that
        a site has let go of do not stay.
        """
        make_private_folder(self._folder)
        file = self._file(run)
        frame = _framed(msgspec.msgpack.encode(kept))
        if file.is_file():
            before = file.read_bytes()
            last, end = _last_kept(before)
            room = max(LONGEST, MOST_KEPT * len(frame))
            grows = len(kept.memory) >= len(last.memory) and end + len(frame) <= room
            if before.startswith(FRAME) and grows and write_behind(file, end, frame):
                return
        write_file(file, frame, private=True, durable=True)

    def enter(self, entry: LocalEntry) -> None:
        """Append to the site's ledger."""
        texts = {
            name: printable(value)
            for name, value in msgspec.structs.asdict(entry).items()
            if isinstance(value, str)
        }
        append_line(self._ledger, msgspec.json.encode(msgspec.structs.replace(entry, **texts)), private=True)

    def entries(self) -> list[LocalEntry]:
        """Read the site's ledger, one entry for each question; a line cut off by a crash is left out."""
        lines, _ = self._lines(0)
        return [entry for entry, _ in lines]

    def since(self, start: int) -> tuple[list[LocalEntry], int]:
        """Read what is complete in the ledger from a byte on; also return the byte to go on from.

        A question that is being worked on waits for its outcome.
        """
        lines, end = self._lines(start)
        working = _last_begun(lines)
        if working is not None:
            end = lines[working][1]
            lines = lines[:working]
        return [entry for entry, _ in lines], end

    def _lines(self, start: int) -> tuple[list[tuple[LocalEntry, int]], int]:
        """Return the entries from a byte on, each with the byte where it begins, and where they end."""
        if not self._ledger.is_file():
            return [], 0
        with self._ledger.open("rb") as file:
            file.seek(start)
            data = file.read()
        found: list[tuple[LocalEntry, int]] = []
        at = start
        for line in data[: data.rfind(b"\n") + 1].splitlines(keepends=True):
            try:
                entry = msgspec.json.decode(line, type=LocalEntry)
            except ValueError:  # broken JSON, or broken UTF-8
                pass
            else:
                working = _last_begun(found)
                if working is not None and found[working][0].precedes(entry):
                    found.pop(working)
                found.append((entry, at))
            at += len(line)
        return found, at

    def check_rate_limit(self, run: bytes, runs_per_day: int) -> None:
        """Refuse a new run when the site took part in as many as its policy allows in a day."""
        since = time.time() - 24 * 3600
        for start in (self._tail(), 0):  # of a run that goes on the last lines speak: few questions read all
            lines, _ = self._lines(start)
            recent = {entry.run for entry, _ in lines if entry.time > since and entry.counts}
            if run.hex() in recent:
                return
        if len(recent) >= runs_per_day:
            raise ProtocolError(
                f"the site took part in {len(recent)} runs in the last 24 hours; its policy allows {runs_per_day}"
            )

    def _tail(self) -> int:
        """Return the byte from which on the ledger's last lines are."""
        return max(self._ledger.stat().st_size - TAIL, 0) if self._ledger.is_file() else 0

    def has_answered(self, run: bytes) -> bool:
        """Say whether, by the ledger, anything but a refusal has left the site in a run."""
        nothing = ("", "none", Refusal.kind, Waiting.kind)
        return any(entry.run == run.hex() and entry.answer not in nothing for entry in self.entries())

    def forget_old(self) -> None:
        """Delete the memories of runs that nobody went on with."""
        if self._folder.is_dir():
            for file in self._folder.glob("*.bin*"):  # with what a crash left half written
                if file.stat().st_mtime < time.time() - KEEP_SECONDS:
                    file.unlink(missing_ok=True)

    def _file(self, run: bytes) -> Path:
        return self._folder / f"{run.hex()}.bin"


def _last_begun(lines: list[tuple[LocalEntry, int]]) -> int | None:
    """Return which of the last lines says that a question is worked on; what was charged for it may stand behind."""
    for at in range(len(lines) - 1, max(len(lines) - 3, -1), -1):
        if lines[at][0].begun:
            return at
        if lines[at][0].question != CHARGED:
            return None
    return None


DAMAGED = "the site's stored memory of this run is damaged; the run has to start anew"


def _framed(data: bytes) -> bytes:
    """Return a memory as it stands in a file: what it begins with, its length, its hash, and itself."""
    return FRAME + len(data).to_bytes(8, "big") + hashlib.sha256(data).digest() + data


def _last_kept(data: bytes) -> tuple[StoredMemory, int]:
    """Return the last memory in a file, and where it ends.

    One that is cut off was being written when the machine stopped: no answer left with it, so the one before it counts.
    """
    if not data.startswith(FRAME):  # of earlier releases: a file had one memory, and nothing around it
        return _decode(data), len(data)
    last = b""
    end = 0
    while data.startswith(FRAME, end):
        begin = end + len(FRAME) + 8 + 32
        size = int.from_bytes(data[end + len(FRAME) : begin - 32], "big")
        body = data[begin : begin + size]
        if len(data) < begin + size:
            break
        if hashlib.sha256(body).digest() != data[begin - 32 : begin]:
            raise ProtocolError(DAMAGED)
        last = body
        end = begin + size
    if not last or not FRAME.startswith(data[end : end + len(FRAME)]):
        raise ProtocolError(DAMAGED)
    return _decode(last), end


def _decode(data: bytes) -> StoredMemory:
    try:
        return msgspec.msgpack.decode(data, type=StoredMemory)
    except msgspec.DecodeError as error:
        raise ProtocolError(DAMAGED) from error

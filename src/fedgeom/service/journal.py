"""What a site keeps on its own disk: its memory of running conversations, and its own ledger.

A site's memory travels in the Flower context, which ends with the Flower run. The copy here is written
*before* an answer leaves: it outlives crashes, it lets a run be resumed, and it is why a mask is never
used twice.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from fedgeom.errors import ProtocolError
from fedgeom.service.certificates import write_private

KEEP_SECONDS = 7 * 24 * 3600
"""How long the memory of an unfinished run is kept."""


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


class Kept(msgspec.Struct, frozen=True):
    """A memory with a counter, so that of two copies the newer one is known."""

    count: int
    memory: bytes


class Journal:
    """A site's own files."""

    def __init__(self, folder: Path):
        self._folder = folder / "memory"
        self._ledger = folder / "ledger.jsonl"

    def newest(self, run: bytes, carried: bytes | None) -> Kept:
        """Return the newer of the copy on disk and the one that Flower carried."""
        copies = [Kept(0, b"")]
        if carried:
            copies.append(_decode(carried))
        file = self._file(run)
        if file.is_file():
            copies.append(_decode(file.read_bytes()))
        return max(copies, key=lambda kept: kept.count)

    def keep(self, run: bytes, kept: Kept) -> bytes:
        """Write a memory to disk, and return it for Flower to carry."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        data = msgspec.msgpack.encode(kept)
        draft = self._file(run).with_suffix(".part")
        write_private(draft, data)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(self._file(run))
        return data

    def enter(self, entry: LocalEntry) -> None:
        """Append to the site's ledger."""
        with self._ledger.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def entries(self) -> list[LocalEntry]:
        """Read the site's ledger; a line cut off by a crash is left out."""
        if not self._ledger.is_file():
            return []
        entries = []
        for line in self._ledger.read_bytes().splitlines():
            try:
                entries.append(msgspec.json.decode(line, type=LocalEntry))
            except msgspec.DecodeError:
                continue
        return entries

    def check_often(self, run: bytes, runs_per_day: int) -> None:
        """Refuse a new run when the site took part in as many as its policy allows in a day."""
        since = time.time() - 24 * 3600
        recent = {entry.run for entry in self.entries() if entry.time > since}
        if run.hex() not in recent and len(recent) >= runs_per_day:
            raise ProtocolError(
                f"the site took part in {len(recent)} runs in the last 24 hours; its policy allows {runs_per_day}"
            )

    def forget_old(self) -> None:
        """Delete the memories of runs that nobody went on with."""
        if self._folder.is_dir():
            for file in self._folder.glob("*.bin"):
                if file.stat().st_mtime < time.time() - KEEP_SECONDS:
                    file.unlink(missing_ok=True)

    def _file(self, run: bytes) -> Path:
        return self._folder / f"{run.hex()}.bin"


def _decode(data: bytes) -> Kept:
    try:
        return msgspec.msgpack.decode(data, type=Kept)
    except msgspec.DecodeError as error:
        raise ProtocolError(
            "the site's stored memory of this run is damaged; the run has to start anew"
        ) from error

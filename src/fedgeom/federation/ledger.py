"""The ledger: every message that left a site, with its size and what it reveals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.errors import InputError
from fedgeom.federation.frames import as_frame
from fedgeom.storage import write_file


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One message that a site sent."""

    step: int
    site: str
    kind: str
    bytes: int
    received: int
    """The size of the question it answers."""
    reveals: str


class Ledger:
    """All entries of a run, in the order in which they happened."""

    def __init__(self, entries: list[Entry] | None = None):
        self.entries: list[Entry] = entries or []
        self.listeners: list[Callable[[Entry], None]] = []

    def add(self, entry: Entry) -> None:
        """Write an entry down and tell those who listen (the run record, a progress display)."""
        self.entries.append(entry)
        for listener in self.listeners:
            listener(entry)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def sites(self) -> list[str]:
        """The sites that sent something, in alphabetical order."""
        return sorted({entry.site for entry in self.entries})

    def sent(self, site: str | None = None) -> int:
        """Return how many bytes left one site, or all of them."""
        return sum(entry.bytes for entry in self.entries if site in (None, entry.site))

    def summary(self) -> list[tuple[int, str, int, int, str]]:
        """Return one row per step and kind: step, kind, sites, bytes in all, what it reveals."""
        rows: dict[tuple[int, str, str], list[int]] = {}
        for entry in self.entries:
            count = rows.setdefault((entry.step, entry.kind, entry.reveals), [0, 0])
            count[0] += 1
            count[1] += entry.bytes
        return [(step, kind, n, size, reveals) for (step, kind, reveals), (n, size) in rows.items()]

    def frame(self) -> Any:
        """Return the entries as a pandas frame, one row a message, or as records without pandas."""
        names = Entry.__struct_fields__
        return as_frame(names, ([getattr(entry, name) for name in names] for entry in self.entries))

    def save(self, path: str | Path) -> None:
        """Write the ledger as JSON lines."""
        write_file(path, b"".join(msgspec.json.encode(entry) + b"\n" for entry in self.entries))

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger; a last line cut off by a crash is left out, the rest is kept."""
        entries = []
        lines = Path(path).read_bytes().splitlines()
        for at, line in enumerate(lines):
            try:
                entries.append(msgspec.json.decode(line, type=Entry))
            except ValueError as error:  # broken JSON, or broken UTF-8
                if at == len(lines) - 1:
                    break
                raise InputError(f"{path}, line {at + 1} is not a ledger entry: {error}") from error
        return cls(entries)

    def __repr__(self) -> str:
        return f"<Ledger: {len(self)} messages from {len(self.sites)} sites, {self.sent():,} bytes>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("step", "message", "sites", "bytes", "reveals"))
        rows = "".join(
            f"<tr><td>{step}</td><td>{escape(kind)}</td><td>{n}</td><td>{size:,}</td><td>{escape(reveals)}</td></tr>"
            for step, kind, n, size, reveals in self.summary()
        )
        return f"<table><caption>{escape(repr(self))}</caption><tr>{head}</tr>{rows}</table>"

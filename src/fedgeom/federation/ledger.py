"""The ledger: every message that left a site, with its size and what it reveals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fedgeom.errors import InputError
from fedgeom.storage import write_file


def as_frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """Return a pandas DataFrame, or without pandas a list of dictionaries."""
    lines = [list(row) for row in rows]
    try:
        import pandas  # optional: only people with notebooks need it
    except ImportError:
        return [dict(zip(columns, line, strict=True)) for line in lines]
    return pandas.DataFrame(lines, columns=list(columns))


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One message that a site sent."""

    step: int
    site: str
    kind: str
    bytes: int
    received: int
    """The size of the question it answers."""
    reveals: str


class MessageGroup(NamedTuple):
    """All messages of one kind that reveal the same: those of fifty rounds are one row."""

    kind: str
    reveals: str
    steps: tuple[int, ...]
    """In which steps they came, in ascending order."""
    fewest: int
    """How many sites sent it in the step in which the fewest did."""
    most: int
    """How many sites sent it in the step in which the most did."""
    messages: int
    bytes: int
    """Of all of them together."""

    @classmethod
    def of(cls, entries: Sequence[LedgerEntry]) -> MessageGroup:
        """Count entries of one kind."""
        counts = Counter(entry.step for entry in entries)
        size = sum(entry.bytes for entry in entries)
        of_steps = (min(counts.values()), max(counts.values()))
        return cls(entries[0].kind, entries[0].reveals, tuple(sorted(counts)), *of_steps, len(entries), size)

    @property
    def when(self) -> str:
        """The steps as people write them: 5, or 9 … 156."""
        return str(self.steps[0]) if len(self.steps) == 1 else f"{self.steps[0]} … {self.steps[-1]}"

    @property
    def sites(self) -> str:
        """How many sites sent it in a step: 3, or 2–3 where not always all did."""
        return str(self.most) if self.fewest == self.most else f"{self.fewest}–{self.most}"


class Ledger:
    """All entries of a run, in the order in which they happened."""

    def __init__(self, entries: list[LedgerEntry] | None = None):
        self.entries: list[LedgerEntry] = entries or []
        self.listeners: list[Callable[[LedgerEntry], None]] = []

    def add(self, entry: LedgerEntry) -> None:
        """Write an entry down and tell those who listen (the run record, a progress display)."""
        self.entries.append(entry)
        for listener in self.listeners:
            listener(entry)

    def __iter__(self) -> Iterator[LedgerEntry]:
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

    def by_message(self) -> list[MessageGroup]:
        """Return one row for each kind of message and what it reveals, in the order in which they first came."""
        found: dict[tuple[str, str], list[LedgerEntry]] = {}
        for entry in self.entries:
            found.setdefault((entry.kind, entry.reveals), []).append(entry)
        return [MessageGroup.of(entries) for entries in found.values()]

    def frame(self) -> Any:
        """Return the entries as a pandas frame, one row a message, or as records without pandas."""
        names = LedgerEntry.__struct_fields__
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
                entries.append(msgspec.json.decode(line, type=LedgerEntry))
            except ValueError as error:  # broken JSON, or broken UTF-8
                if at == len(lines) - 1:
                    break
                raise InputError(f"{path}, line {at + 1} is not a ledger entry: {error}") from error
        return cls(entries)

    def __repr__(self) -> str:
        return f"<Ledger: {len(self)} messages from {len(self.sites)} sites, {self.sent():,} bytes>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("steps", "message", "times", "sites", "bytes", "reveals"))
        rows = "".join(
            f"<tr><td>{one.when}</td><td>{escape(one.kind)}</td><td>{len(one.steps)}</td><td>{one.sites}</td>"
            f"<td>{one.bytes:,}</td><td>{escape(one.reveals)}</td></tr>"
            for one in self.by_message()
        )
        return f"<table><caption>{escape(repr(self))}</caption><tr>{head}</tr>{rows}</table>"

"""The figures of a run's costs: bytes, processor time and memory, of a site and of the coordinator.

Bytes are counted (`fedgeom.protocols.costs`). Processor time is counted in what dominates: agreements, masks, shares,
bytes of messages; each has a price in seconds, measured on one core of a small machine. A site's own arithmetic on its
rows (hulls, training) comes on top where a method writes it down. Take times as orders of magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass, field

AGREEMENT = 8e-5
"""Seconds for a key agreed on with a peer, with its derivation and letter."""
MASK_KEY = 1.5e-5
"""Seconds to derive the key of a mask and to set the cipher up."""
MASK_BYTE = 4e-10
"""Seconds to make and add a byte of a mask."""
SHARE_STEP = 6e-8
"""Seconds for one step of evaluating a polynomial whose values are shares."""
RECOVER_STEP = 1.5e-7
"""Seconds for one step of putting a secret together."""
MESSAGE = 7e-4
"""Seconds for any question and its answer: frames, memory, ledger, signatures."""
MESSAGE_BYTE = 4e-9
"""Seconds to encode, hash, copy and decode a byte of a message."""
COPIES = 4
"""Of the largest message a process has about so many copies at a time."""


@dataclass(frozen=True)
class Exchange:
    """One question to all sites and their answers, as often as it is put."""

    kind: str
    times: int
    sites: int
    down: float
    """Bytes of the question to one site, on average."""
    up: float
    """Bytes of its answer."""
    work: float = 0.0
    """Seconds that a site computes beside reading and writing."""


@dataclass
class Costs:
    """What a run costs, question by question."""

    exchanges: list[Exchange] = field(default_factory=list)
    sites: int = 0
    table: int = 0
    """Bytes of the largest site's table."""
    left_out: list[str] = field(default_factory=list)
    """What is not counted."""
    joining_seconds: float = 0.0
    """Of one site: keys and agreements."""
    unmasking_seconds: float = 0.0
    """Of the coordinator: secrets put together, masks taken off."""

    def add(self, exchange: Exchange) -> None:
        """Write down a question."""
        self.exchanges.append(exchange)

    def agreements(self, holders: int, rounds: int) -> None:
        """Count the keys that a site agrees on, to seal letters and to open them, and those of its pairs for sums."""
        self.joining_seconds += 2 * holders * AGREEMENT + rounds * holders * MASK_KEY / 10

    def unmasked(self, length: int, sites: int, holders: int, times: int) -> None:
        """Count what the coordinator computes to unmask sums."""
        needed = 2 * holders // 3
        self.unmasking_seconds += times * sites * (8 * length * MASK_BYTE + needed**2 * RECOVER_STEP)

    @property
    def questions(self) -> int:
        """How many questions are put to every site."""
        return sum(one.times for one in self.exchanges)

    @property
    def up(self) -> int:
        """Bytes that one site sends, on average."""
        return round(sum(one.times * one.up for one in self.exchanges))

    @property
    def down(self) -> int:
        """Bytes that one site is sent, on average."""
        return round(sum(one.times * one.down for one in self.exchanges))

    @property
    def total_up(self) -> int:
        """Bytes that the coordinator receives."""
        return round(sum(one.times * one.up * one.sites for one in self.exchanges))

    @property
    def total_down(self) -> int:
        """Bytes that the coordinator sends."""
        return round(sum(one.times * one.down * one.sites for one in self.exchanges))

    @property
    def largest(self) -> int:
        """Bytes of the largest message of one site."""
        return round(max((max(one.up, one.down) for one in self.exchanges), default=0.0))

    @property
    def site_seconds(self) -> float:
        """Processor seconds of one site."""
        carried = self.questions * MESSAGE + (self.up + self.down) * MESSAGE_BYTE
        return carried + self.joining_seconds + sum(one.times * one.work for one in self.exchanges)

    @property
    def coordinator_seconds(self) -> float:
        """Processor seconds of the coordinator."""
        carried = self.questions * self.sites * MESSAGE / 4 + (self.total_up + self.total_down / 4) * MESSAGE_BYTE
        return carried + self.unmasking_seconds

    @property
    def seconds(self) -> float:
        """Processor seconds of all together, as in one process."""
        return self.sites * self.site_seconds + self.coordinator_seconds

    @property
    def site_memory(self) -> int:
        """Bytes that a site needs beside its libraries: its table twice, and copies of a message."""
        return 2 * self.table + COPIES * self.largest

    @property
    def coordinator_memory(self) -> int:
        """Bytes that the coordinator needs beside its libraries: copies of a message, and all sites' letters."""
        kept = max((one.up * one.sites for one in self.exchanges if one.kind == "join.share"), default=0.0)
        return round(COPIES * self.largest + 2 * kept)


def share_work(rounds: int, holders: int, needed: int) -> float:
    """Return the seconds for shares of two secrets a sum among so many holders."""
    return 2 * rounds * holders * needed * SHARE_STEP


def sum_work(length: int, masks: int, sites: int) -> float:
    """Return the seconds that a site needs to hide a vector; each mask has a key to derive."""
    return masks * (MASK_KEY + 8 * length * MASK_BYTE) + 1e-6 * sites

"""What a run costs before it is run: its messages, their sizes, processor time and memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from fedgeom.crypto.keys import NONCE_BYTES
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, degree
from fedgeom.crypto.shamir import SHARE_BYTES
from fedgeom.crypto.tags import WORDS
from fedgeom.federation.messages import Array, Message, Question, encode, pack_body
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.protocols.evaluation import SumEvaluation, counts_length
from fedgeom.protocols.fixed_point import RING
from fedgeom.protocols.join.messages import (
    HERALDS,
    DrawRing,
    Hello,
    Letter,
    Letters,
    PublicKeys,
    RingNumber,
    Share,
)
from fedgeom.protocols.names import (
    PAGE,
    CountNames,
    HoldNames,
    KeepNames,
    NamesHeld,
    OpenNames,
    SealedNames,
    SealNames,
    Vocabulary,
    slots_for,
)
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    SumQuestion,
    SumResult,
    Ticket,
    Unmask,
    UnmaskShares,
)

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


def words(count: int) -> Array:
    """Return so many words of a sum, as they travel."""
    return Array.of(np.zeros(count, np.uint64), copy=False)


def map_header(entries: int) -> int:
    """Return how many bytes say that so many entries of a map follow."""
    return 1 if entries < 16 else 3 if entries < 1 << 16 else 5


def text_size(text: str) -> int:
    """Return the bytes of a text in a message."""
    size = len(text.encode())
    return size + (1 if size < 32 else 2 if size < 256 else 3)


def bytes_size(size: int) -> int:
    """Return the bytes of a byte string in a message."""
    return size + (2 if size < 256 else 3 if size < 1 << 16 else 5)


KEY, SIGNATURE, TAG_BYTES = bytes(32), bytes(64), 16


@dataclass
class Sheet:
    """The messages of a run over sites that all stay."""

    method: Method
    names: tuple[str, ...]
    """The sites, in alphabetical order."""
    columns: int
    classes: tuple[str, ...]
    """The label names of all sites, as they will agree on them."""
    rows: int = 0
    """Of the largest site."""
    own_names: tuple[tuple[str, ...], ...] = ()
    """Each site's own label names, where they differ from all of them."""
    named_columns: bool = True
    policy: Policy = field(default_factory=Policy)
    seed: int = 0
    tables: Sequence[Any] = ()
    """The sites' tables, where one process has them: some sizes follow from rows."""
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        planned = self.method.site.all_sums(self.method)  # type: ignore[attr-defined]
        self._planned = [question.kind for question in planned]
        self._next, self._mail, self._letters = 0, 0, 0
        self._names = sum(map(text_size, self.names))
        self.costs.sites, self.costs.table = len(self.names), 8 * self.rows * self.columns

    @property
    def n(self) -> int:
        """How many sites there are."""
        return len(self.names)

    @property
    def peers(self) -> int:
        """How many others each site shares masks with."""
        return degree(self.n, self.method.smallest_sum(self.n))

    def ask(
        self,
        question: Question,
        answer: Message,
        *,
        down: float = 0.0,
        up: float = 0.0,
        times: int = 1,
        work: float = 0.0,
    ) -> None:
        """Write down a question to every site and its answer.

        ``down`` and ``up`` are bytes that one message has besides, on average; ``work`` is what a site computes, in
        seconds.
        """
        sent, came = self._framed(question, down), self._framed(answer, up)
        self.costs.add(Exchange(question.kind, times, self.n, sent, came, work))

    def _framed(self, message: Message, more: float) -> float:
        body = len(encode(message)) + more
        empty = len(pack_body(KEY, self.method.name, message.kind, b""))
        return empty - bytes_size(0) + bytes_size(int(body)) + body % 1

    def _mailed(self) -> float:
        """Return the bytes of the mail in the next question to a site: it is brought once."""
        size, count, self._mail, self._letters = self._mail, self._letters, 0, 0
        return (size + self.n * (map_header(count // self.n) - map_header(0))) / self.n if size else 0.0

    def join(self) -> None:
        """Write down how the sites come together."""
        rounds, policy, raw = len(self._planned), self.policy, bool(self.method.preparing)
        self._check_known()
        keys = PublicKeys(
            letters=KEY,
            masks=(KEY,) * rounds,
            seals=(KEY,) * rounds,
            columns=0 if raw else self.columns,
            columns_hash=KEY if self.named_columns and not raw else b"",
            floors=policy.class_floors,
            ring_commit=KEY,
            min_cohort=policy.min_cohort,
            min_difference=0 if policy.sums_after_losses else policy.min_cohort,
            signature=SIGNATURE,
        )
        terms = self.method.terms()
        self.ask(Hello(rounds=rounds, seed=self.seed, terms=dict(terms), participants=self.names), keys)
        cohort = self._map(self.n, self._names + self.n * len(encode(keys)))
        numbers = 0.0
        if self.n > COMPLETE_UP_TO:
            self.ask(DrawRing(cohort={}, draw=0), RingNumber(number=KEY), down=cohort)
            numbers = self._map(self.n, self._names + self.n * bytes_size(32))
        holders = self.peers + 1
        needed = policy.holders_needed(holders)
        if self.n > COMPLETE_UP_TO:
            needed = max(needed, -(-2 * holders // 3))
        written, self._letters = self._written(rounds)
        self._mail = written
        headers = map_header(self._letters // self.n) - map_header(0)
        self.ask(
            Share(cohort={}),
            Letters(letters={}, needed=needed, locked=(self.peers * KEY,) * rounds),
            down=cohort + numbers,
            up=written / self.n + headers,
            work=share_work(rounds, holders, needed),
        )
        self.costs.agreements(holders, rounds)

    def _written(self, rounds: int) -> tuple[int, int]:
        """Return the bytes of all letters with their names, and how many there are."""
        shares, mean = (bytes(SHARE_BYTES),) * rounds, self._names / self.n

        def sealed(letter: Letter) -> int:
            return bytes_size(NONCE_BYTES + TAG_BYTES + len(msgspec.msgpack.encode(letter)))

        whole, told = sealed(Letter(shares, shares, KEY)), sealed(Letter(secret=KEY))
        if self.n <= COMPLETE_UP_TO:
            return (self.n - 1) * (self._names + self.n * whole), self.n * (self.n - 1)
        bare = sealed(Letter(shares, shares))
        others, rest = self.n - HERALDS, self.n - 1 - self.peers
        size = others * self.peers * (bare + mean)
        size += HERALDS * (self.peers * (whole + mean) + rest * (told + mean))
        return round(size), self.n * self.peers + HERALDS * rest

    def _map(self, entries: int, size: float) -> float:
        return map_header(entries) - map_header(0) + size

    def agree_on_names(self, given: Sequence[str] | None = None) -> None:
        """Write down how the sites agree on label names, unless they stand in the terms."""
        if self.policy.class_floors == (1, 1) or privacy_of(self.method):
            if not given:
                sealed = self._seal()
                self.ask(OpenNames(sealed={}), Vocabulary(names=self.classes), down=sealed)
            return
        slots = slots_for(given or self.classes)
        if not given:
            self.ask(HoldNames(sealed={}), NamesHeld(slots=slots), down=self._seal())
        result = self.sum(CountNames(lists=KEY, slots=slots), 2 * slots)
        self.ask(KeepNames(result=result), Vocabulary(names=self.classes))

    def _seal(self) -> float:
        """Write down that names are sealed, and return the bytes of all lists in one question."""
        own = self.own_names or (self.classes,) * self.n
        pages = [-(-len(msgspec.json.encode(sorted(one))) // PAGE) for one in own]
        size = sum(bytes_size(NONCE_BYTES + TAG_BYTES + PAGE * count) for count in pages)
        mean = size / self.n - bytes_size(0)
        self.ask(
            SealNames(participants=self.names, letters={}), SealedNames(names=b""), down=self._mailed(), up=mean
        )
        return self._map(self.n, self._names + size)

    def next_round(self, kind: str) -> int:
        """Return the number of the next planned sum of a kind."""
        self._next = self._planned.index(kind, self._next) + 1
        return self._next - 1

    def sum(
        self,
        question: SumQuestion,
        length: int,
        *,
        modulus: int = RING.modulus,
        times: int = 1,
        work: float = 0.0,
    ) -> SumResult:
        """Write down a secure sum of so many numbers, or several of the same size; return its result as it travels."""
        number = self.next_round(question.kind)
        self._next += times - 1
        self._count(question, length + (WORDS if question.checked else 0), number, modulus, times, work)
        total, tag = words(length), words(WORDS)
        return SumResult(round=number, sites=self.names, total=total, tag=tag)

    def _count(
        self, question: SumQuestion, length: int, number: int, modulus: int, times: int, work: float
    ) -> None:
        ticket = Ticket(
            round=number, modulus=str(modulus), members=self.names, participants=self.names, question_hash=KEY
        )
        made, near = msgspec.structs.replace(question, ticket=ticket), self.peers + 1
        masked = MaskedVector(vector=words(length), signature=SIGNATURE)
        mail, spent = self._mailed(), work + sum_work(length, near, self.n)
        if mail:
            self.ask(made, masked, down=mail, work=spent)
        if times - bool(mail):
            self.ask(made, masked, times=times - bool(mail), work=spent)
        lists: dict[str, tuple[str, ...]] = {"alive": self.names, "dropped": ()}
        self.ask(Confirm(round=number, **lists), Confirmation(signature=SIGNATURE), times=times)
        mean = self._names / self.n
        self.ask(
            Unmask(round=number, **lists, signatures={}, masked={}),
            UnmaskShares(self_shares={}, mask_shares={}, proofs={}),
            down=self._map(near, near * (mean + bytes_size(len(SIGNATURE)))),
            up=self._map(near, near * (mean + bytes_size(SHARE_BYTES))),
            times=times,
        )
        self.costs.unmasked(length, self.n, near, times)

    def in_rounds(self, rounds: int, write: Callable[[int, int], None]) -> None:
        """Call ``write`` with a round's number and for how many rounds it stands: small numbers take fewer bytes."""
        first = self._next
        cuts = sorted({0, rounds, *(cut for edge in (128, 256, 65_536) for cut in (edge, edge - first))})
        inside = [cut for cut in cuts if 0 <= cut <= rounds]
        for start, stop in itertools.pairwise(inside):
            write(start, stop - start)

    def evaluate(self, classes: int | None = None) -> None:
        """Write down the test on rows kept aside, where the terms have one."""
        holdout: Any = self.method.holdout
        if holdout is not None:
            count = len(self.classes) if classes is None else classes
            length = count**2 if privacy_of(self.method) else counts_length(count, grouped=holdout.grouped)
            self.sum(SumEvaluation(classes=count), length)

    def _check_known(self) -> None:
        if self.method.preparing:
            self.costs.left_out.append("the preparation of the rows")


def site_names(count: int) -> tuple[str, ...]:
    """Return names for so many sites, equally long."""
    return tuple(f"s{number:0{max(2, len(str(count - 1)))}}" for number in range(count))


def joined_only(sheet: Sheet) -> Costs:
    """Return what is known of any method: how the sites join for its planned sums."""
    sheet.join()
    sheet.costs.left_out.append(
        f"all after joining: the messages of {sheet.method.name!r} are not written down, or depend on the preparation"
    )
    return sheet.costs

"""What a run costs, before it is held: its messages, one after the other, with their sizes.

A `Sheet` is written as a conversation is held: join, agree on names, sum, hand out. Each line encodes messages of the
very classes that will travel, with names, numbers of keys and lengths as they will be, so that bytes are those of a run
in which nobody is lost (`docs/scale.md`). With more than 48 sites, who writes to whom is drawn: bytes are then exact
where all sites' names are equally long, and else right up to these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fedgeom.crypto.letters import NONCE_BYTES
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, degree
from fedgeom.crypto.shamir import SHARE_BYTES
from fedgeom.crypto.tags import WORDS
from fedgeom.federation.messages import Message, Question, encode, pack_body
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.protocols.cost_figures import Costs, Exchange, share_work, sum_work
from fedgeom.protocols.evaluation.counts import counts_length
from fedgeom.protocols.evaluation.messages import SumEvaluation
from fedgeom.protocols.fixed_point import RING
from fedgeom.protocols.joining.messages import (
    HERALDS,
    DrawRing,
    Hello,
    Letter,
    Letters,
    PublicKeys,
    RingNumber,
    Share,
)
from fedgeom.protocols.names.messages import (
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
from fedgeom.protocols.wire_sizes import bytes_size, map_header, text_size, words

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

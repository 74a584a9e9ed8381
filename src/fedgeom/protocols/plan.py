"""What a run costs before it is run: its plan, walked, with every message's size, processor time and memory.

Bytes are counted. Processor time is counted in what dominates: agreements, masks, shares, bytes of messages; each has a
price in seconds, measured on one core of a small machine. A site's own arithmetic on its rows (hulls, training) comes
on top where a plan states it. Take times as orders of magnitude.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from fedgeom.crypto.keys import CIPHERTEXT_BYTES, KEM_PUBLIC_BYTES, SEAL_BYTES, SIGNATURE_BYTES
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, degree
from fedgeom.crypto.shamir import SHARE_BYTES
from fedgeom.crypto.tags import WORDS
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import label_names
from fedgeom.errors import InputError
from fedgeom.federation.holdout import part_rows
from fedgeom.federation.messages import LARGEST_MESSAGE, Message, Question, encode, pack_body
from fedgeom.federation.method import Method
from fedgeom.federation.plan import (
    ANY_SHAPE,
    Ask,
    Bytes,
    Shape,
    Sum,
    blank_bytes,
    bytes_size,
    map_size,
    only_steps,
    text_size,
    words,
)
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.protocols.join.messages import (
    SEED_CONTRIBUTORS,
    Ciphertexts,
    DrawRing,
    Hello,
    Letters,
    Meet,
    PublicKeys,
    RingNumber,
    SealedShares,
    Share,
)
from fedgeom.protocols.preparation import names_step, rehearse
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    SumQuestion,
    SumResult,
    Ticket,
    Unmask,
    UnmaskShares,
    Witness,
    blank_result,
)
from fedgeom.protocols.secure_sum.rules import draw_of

AGREEMENT = 1.8e-4
"""Seconds for the key of a pair: X25519, an encapsulation, a decapsulation, both letters."""
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
    answer: str = ""
    """The kind of the answer."""
    reveals: str = ""
    """What the answer reveals, as the ledger says it."""
    bound: str = ""
    """What decides how often or how large; "" where that is known, and sizes are exact."""
    most_down: float = 0.0
    """Bytes of the largest question to one site."""
    most_up: float = 0.0
    """Bytes of the largest answer of one."""
    remedy: str = ""
    """What makes them smaller."""

    @property
    def largest(self) -> float:
        """Bytes of the largest message."""
        return max(self.down, self.up, self.most_down, self.most_up)


@dataclass
class Costs:
    """What a run costs, question by question."""

    exchanges: list[Exchange] = field(default_factory=list)
    sites: int = 0
    table: int = 0
    """Bytes of the largest site's table."""
    bounds: list[str] = field(default_factory=list)
    """Which questions are counted by an upper bound, and what decides how many or how large they are."""
    joining_seconds: float = 0.0
    """Of one site: keys and agreements."""
    unmasking_seconds: float = 0.0
    """Of the coordinator: secrets put together, masks taken off."""

    def add(self, exchange: Exchange) -> None:
        """Write down a question."""
        self.exchanges.append(exchange)

    def agreements(self, holders: int, rounds: int) -> None:
        """Count the keys that a site agrees on, and those of its pairs for sums."""
        self.joining_seconds += holders * AGREEMENT + rounds * holders * MASK_KEY / 10

    def unmasked(self, length: int, sites: int, holders: int, times: int) -> None:
        """Count what the coordinator computes to unmask sums."""
        needed = 2 * holders // 3
        self.unmasking_seconds += times * sites * (8 * length * MASK_BYTE + needed**2 * RECOVER_STEP)

    @property
    def questions(self) -> int:
        """How many questions are put to every site, on average."""
        return round(sum(one.times * self._share(one) for one in self.exchanges))

    def _share(self, one: Exchange) -> float:
        """Return the share of the sites that a question goes to."""
        return one.sites / self.sites if self.sites else 1.0

    @property
    def up(self) -> int:
        """Bytes that one site sends, on average."""
        return round(sum(one.times * one.up * self._share(one) for one in self.exchanges))

    @property
    def down(self) -> int:
        """Bytes that one site is sent, on average."""
        return round(sum(one.times * one.down * self._share(one) for one in self.exchanges))

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
        return round(max((one.largest for one in self.exchanges), default=0.0))

    @property
    def site_seconds(self) -> float:
        """Processor seconds of one site."""
        carried = self.questions * MESSAGE + (self.up + self.down) * MESSAGE_BYTE
        own = sum(one.times * one.work * self._share(one) for one in self.exchanges)
        return carried + self.joining_seconds + own

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


KEY = bytes(32)
SIGNATURE = bytes(64)
MOST_SITES = 100_000
"""More names no message holds."""
ROUND_EDGES = (128, 256, 65_536)
"""From these numbers on, a round's number takes a byte more."""


class Walk:
    """A run's plan, walked: every message over sites that all stay, with its size.

    Each line encodes messages of the very classes that will travel, with names, numbers of keys and lengths as they
    will be, so that bytes are those of a run in which no site is lost (docs/scale.md). With more than 48 sites, who
    writes to whom is drawn: bytes are then exact where all sites' names are equally long, and else right up to these.
    """

    def __init__(self, method: Method, shape: Shape):
        self.method = method
        self.shape = shape
        self.costs = Costs()
        self.costs.sites = shape.n_sites
        self.costs.table = 8 * shape.rows * (shape.columns if shape.raw_columns is None else shape.raw_columns)
        self._planned = [question.kind for question in method.site.all_sums(method)]  # type: ignore[attr-defined]
        self._next = 0
        self._letters: dict[str, float] = {}
        """The bytes of the letters that each site writes when they join, and is brought once."""
        self._unread = set[str]()
        """The sites that have not been brought their mail yet."""
        self._needed = 0
        """How many holders of shares a sum needs around each site."""
        self._drawn = ""
        """What decides how long letters are; "" where that is known."""
        self._names = sum(map(text_size, shape.sites))
        self._result: SumResult | None = None

    def run(self) -> Costs:
        """Walk the whole plan and return what it costs."""
        self._join()
        private = privacy_of(self.method) is not None
        plan = self.method.site.whole_plan(self.method, self.shape)  # type: ignore[attr-defined]
        for step in only_steps(plan, self.shape, private, lambda step: self._result):
            if isinstance(step, Sum):
                self._sum(step)
            elif isinstance(step, Ask):
                self._result = None
                self._ask(step)
        return self.costs

    @property
    def peers(self) -> int:
        """How many others each site shares masks with."""
        return degree(self.shape.n_sites, self.method.smallest_sum(self.shape.n_sites))

    def _note(
        self, question: Question, answer: Message, *, down: Bytes = 0.0, up: Bytes = 0.0, times: int = 1,
        work: float = 0.0, bound: str = "", to: tuple[str, ...] | None = None, remedy: str = "",
    ) -> None:  # fmt: skip
        """Write down a question and its answer; ``down`` and ``up`` are bytes that they have besides."""
        asked = self.shape.sites if to is None else to
        if self.shape.site:
            asked = tuple(name for name in asked if name == self.shape.site)
        if not asked:
            return
        sent = self._framed(question, down, asked)
        came = self._framed(answer, up, asked)
        self.costs.add(
            Exchange(
                question.kind,
                times,
                len(asked),
                sum(sent) / len(sent),
                sum(came) / len(came),
                work,
                answer.kind,
                question.answer_reveals or answer.reveals,
                bound,
                max(sent),
                max(came),
                remedy,
            )
        )
        line = f"{question.kind}: {bound}"
        if bound and not question.kind.startswith("sum.") and line not in self.costs.bounds:
            self.costs.bounds.append(line)

    def _framed(self, message: Message, more: Bytes, asked: tuple[str, ...]) -> list[float]:
        """Return the bytes of a message in its frame, of each site that is asked, or of all on average."""
        bare = len(encode(message)) + blank_bytes(message)
        empty = len(pack_body(KEY, self.method.name, message.kind, b"")) - bytes_size(0)
        each = [more[name] for name in asked] if isinstance(more, Mapping) else [more]
        return [empty + bytes_size(int(bare + one)) + one % 1 for one in each]

    def _mailed(self, asked: tuple[str, ...]) -> dict[str, float]:
        """Return the bytes of the mail in the next question to some sites; none where all have been brought theirs."""
        unread = self._unread.intersection(asked)
        self._unread -= unread
        return {name: self._letters[name] if name in unread else 0.0 for name in asked} if unread else {}

    def _join(self) -> None:
        """Write down how the sites come together."""
        shape = self.shape
        policy = self.shape.policy
        n = self.shape.n_sites
        rounds = len(self._planned)
        raw = bool(self.method.preparing)
        keys = PublicKeys(
            letters=KEY,
            kem=bytes(KEM_PUBLIC_BYTES),
            masks=(KEY,) * rounds,
            seals=(KEY,) * rounds,
            columns=0 if raw else shape.columns,
            columns_hash=KEY if shape.named_columns and not raw else b"",
            floors=policy.class_floors,
            ring_commit=KEY,
            min_cohort=policy.min_cohort,
            min_difference=0 if policy.sums_after_losses else policy.min_cohort,
            signature=bytes(SIGNATURE_BYTES),
        )
        terms = dict(self.method.terms())
        self._note(Hello(rounds=rounds, seed=shape.seed, terms=terms, participants=shape.sites), keys)
        cohort = map_size(n, self._names + n * len(encode(keys)))
        numbers = 0.0
        draw = draw_of(self.method)
        if n > COMPLETE_UP_TO or (draw is not None and draw.by == "sites"):
            self._note(DrawRing(cohort={}, draw=0), RingNumber(number=KEY), down=cohort)
            numbers = map_size(n, self._names + n * bytes_size(32))
        exchanged = self._exchanged()
        self._note(Meet(cohort={}), Ciphertexts(ciphertexts={}), down=cohort + numbers, up=exchanged)
        holders = self.peers + 1
        needed = policy.holders_needed(holders)
        if n > COMPLETE_UP_TO:
            needed = max(needed, -(-2 * holders // 3))
        self._needed = needed
        self._unread = set(shape.sites)
        if self.method.sum_sites(shape.sites, shape.seed) is not None:
            self._drawn = "which sites are drawn for a sum: only these share its secrets"
        self._letters = self._written(rounds)
        self._note(
            Share(ciphertexts={}),
            Letters(letters={}, needed=needed, locked=(self.peers * KEY,) * rounds),
            down=exchanged,
            up=self._letters,
            work=share_work(rounds, holders, needed),
            bound=self._drawn,
        )
        self.costs.agreements(holders, rounds)

    def _exchanged(self) -> dict[str, float]:
        """Return the bytes of the ciphertexts that each site makes, with their names; it gets as many."""
        names = self.shape.sites
        n = len(names)
        size = bytes_size(CIPHERTEXT_BYTES)
        if n <= COMPLETE_UP_TO or self.method.site.pairs_meet(self.method):  # type: ignore[attr-defined]
            return {name: map_size(n - 1, self._names - text_size(name) + (n - 1) * size) for name in names}
        # Seed contributors are each other's peers.
        count = n * self.peers + 2 * SEED_CONTRIBUTORS * (n - 1 - self.peers)
        return dict.fromkeys(names, map_size(count // n, count * (size + self._names / n) / n))

    def _written(self, rounds: int) -> dict[str, float]:
        """Return the bytes of each site's letters with their names; it gets as many, and as long ones."""
        names = self.shape.sites
        n = len(names)
        shares = (bytes(SHARE_BYTES),) * rounds

        def sealed(letter: SealedShares) -> int:
            return bytes_size(SEAL_BYTES + len(msgspec.msgpack.encode(letter)))

        whole = sealed(SealedShares(shares, shares, KEY))
        if n <= COMPLETE_UP_TO:
            return {name: map_size(n - 1, self._names - text_size(name) + (n - 1) * whole) for name in names}
        told = sealed(SealedShares(secret=KEY))
        bare = sealed(SealedShares(shares, shares))
        mean = self._names / n
        rest = n - 1 - self.peers
        size = (n - SEED_CONTRIBUTORS) * self.peers * (bare + mean)
        size += SEED_CONTRIBUTORS * (self.peers * (whole + mean) + rest * (told + mean))
        count = n * self.peers + SEED_CONTRIBUTORS * rest
        return dict.fromkeys(names, map_size(count // n, round(size) / n))

    def _ask(self, step: Ask) -> None:
        """Write down a question that every site answers for itself, as often as it is put."""
        for number, times in self._runs(step.times, 0):
            question = step.specimen(number)
            mail = self._mailed(step.to or self.shape.sites) if hasattr(question, "letters") else {}
            self._note(
                question,
                step.answer,
                down=_plus(step.down, mail),
                up=step.up,
                times=times,
                work=step.work,
                bound=step.bound or (self._drawn if mail else ""),
                to=step.to,
                remedy=step.remedy,
            )

    def _sum(self, step: Sum) -> None:
        """Write down a secure sum, as often as it is taken, and keep its result as it travels."""
        kind = step.specimen().kind
        if 8 * step.length > LARGEST_MESSAGE:
            raise InputError(
                f"{kind!r} sums {step.length:,} numbers, more than a message of {LARGEST_MESSAGE:,} bytes holds; "
                f"{step.remedy or 'take settings with smaller messages'}"
            )
        first = self._planned.index(kind, self._next)
        for number, times in self._runs(step.times, first):
            self._count(step, step.specimen(number), first + number, times)
        self._next = first + step.times + step.spare
        self._result = blank_result(max(first + step.times - 1, 0), step.to or self.shape.sites, step.length)

    def _runs(self, times: int, first: int) -> Iterator[tuple[int, int]]:
        """Yield a repetition's number and for how many it stands: small numbers take fewer bytes."""
        if times < 2:
            yield from [(0, 1)] * times
            return
        edges = {0, times, *(cut for edge in ROUND_EDGES for cut in (edge, edge - first))}
        inside = [cut for cut in sorted(edges) if 0 <= cut <= times]
        for start, stop in itertools.pairwise(inside):
            yield start, stop - start

    def _count(self, step: Sum, question: SumQuestion, number: int, times: int) -> None:
        names = self.shape.sites
        n = self.shape.n_sites
        to = step.to or names
        length = step.length + (WORDS if question.checked else 0)
        some = self.shape.some(len(to)) if step.bound else to  # as messages name those in the sum
        ticket = Ticket(
            round=number, modulus=str(step.modulus), members=names, participants=some, question_hash=KEY
        )
        made = msgspec.structs.replace(question, ticket=ticket)
        near = min(self.peers + 1, len(to))
        masked = MaskedVector(vector=words(length), signature=SIGNATURE)
        mail = self._mailed(to)
        spent = step.work + sum_work(length, near, n)
        more: dict[str, Any] = {"up": step.up, "work": spent, "to": to, "remedy": step.remedy}
        if mail:
            self._note(made, masked, down=_plus(step.down, mail), bound=step.bound or self._drawn, **more)
        if times - bool(mail):
            self._note(made, masked, down=step.down, times=times - bool(mail), bound=step.bound, **more)
        if question.row_sum:  # of which nothing is unmasked
            return
        # Where those in a sum hold too few shares, the others are asked for theirs; of many sites, some may be.
        enough = near >= self._needed and n <= COMPLETE_UP_TO
        others = () if enough or len(to) == n else tuple(name for name in names if name not in to)
        lists: dict[str, tuple[str, ...]] = {"alive": some, "dropped": ()}
        rest: dict[str, Any] = {"times": times, "bound": step.bound}
        self._note(Confirm(round=number, **lists), Confirmation(signature=SIGNATURE), to=to, **rest)
        if others:
            over: dict[str, tuple[str, ...]] = {"members": names, "participants": some, **lists}
            witness = Witness(round=number, question_hash=KEY, content=KEY, **over)  # type: ignore[arg-type]
            mail = self._mailed(others)
            self._note(witness, Confirmation(signature=SIGNATURE), down=mail or 0.0, to=others, **rest)
        signed = (*to, *others)
        around = min(self.peers + 1, len(signed))
        self._note(
            Unmask(round=number, **lists, signatures={}, masked={}),
            UnmaskShares(self_shares={}, mask_shares={}, proofs={}),
            down=map_size(around, around * (_mean_name(signed) + bytes_size(len(SIGNATURE)))),
            up=map_size(near, near * (_mean_name(some) + bytes_size(SHARE_BYTES))),
            to=signed,
            **rest,
        )
        self.costs.unmasked(length, n, near, times)


def _plus(more: Bytes, mail: Mapping[str, float]) -> Bytes:
    """Return the bytes that a question has besides, with the mail that it brings."""
    if not mail:
        return more
    return {name: one + (more[name] if isinstance(more, Mapping) else more) for name, one in mail.items()}


def _mean_name(names: Sequence[str]) -> float:
    return sum(map(text_size, names)) / len(names)


def costs_of(method: Method, shape: Shape) -> Costs:
    """Return what a run costs: every message of its plan."""
    return Walk(method, shape).run()


@dataclass(frozen=True)
class Disclosure:
    """One kind of message that leaves a site: what it answers, and what it reveals."""

    question: str
    answer: str
    reveals: str

    @property
    def harmless(self) -> bool:
        """Whether it shows nothing of the site's rows: keys, signatures, receipts."""
        return self.reveals.startswith("nothing")


def disclosures(method: Method) -> tuple[Disclosure, ...]:
    """Return every kind of message that a run on these terms may have a site send, in the plan's order."""
    exchanges = costs_of(method, ANY_SHAPE).exchanges
    return tuple(dict.fromkeys(Disclosure(one.kind, one.answer, one.reveals) for one in exchanges))


def leaves(method: Method) -> tuple[str, ...]:
    """Return what leaves a site, as its ledger says it: one line each, those that show nothing of its rows last."""
    found = disclosures(method)
    shown = [f"{one.question}: {one.reveals}" for one in found if not one.harmless]
    rest = [one.question for one in found if one.harmless]
    return (*dict.fromkeys(shown), f"nothing of the rows: {', '.join(dict.fromkeys(rest))}")


def shape_of(method: Method, sites: Sequence[SiteData], policy: Policy | None = None, seed: int = 0) -> Shape:
    """Return the shape of a run over these tables; where rows are prepared, that is rehearsed."""
    rules = policy or Policy()
    sites = [method.normalise_labels(site) for site in sites]
    names = tuple(sorted(site.name for site in sites))
    raw = sites[0].shape[1]
    rehearsed = None
    tables = [part_rows(site, method, seed, rules)[0] for site in sites]
    private = privacy_of(method) is not None
    if method.preparing or (method.planned_steps and rules.class_floors != (1, 1)):
        classes, summed = _not_rare(method, tables, rules) if not private else ((), tables)
        rehearsed, fitted = rehearse(method.planned_steps, summed, seed, rules, private=private, classes=classes)
        tables = [fitted.transform(site) for site in tables]
    in_order = sorted(sites, key=lambda one: one.name)
    return Shape(
        sites=names,
        columns=tables[0].shape[1],
        classes=tuple(method_classes(method, sites)),
        rows=max(len(site) for site in sites),
        own_names=tuple(tuple(sorted(label_names([site]))) for site in in_order),
        named_columns=any(site.columns for site in sites),
        policy=rules,
        seed=seed,
        tables=tables,
        raw_columns=raw,
        preparation=rehearsed,
    )


def _not_rare(
    method: Method, sites: Sequence[SiteData], policy: Policy
) -> tuple[tuple[str, ...], Sequence[SiteData]]:
    """Return the classes that enough sites and rows have, where names are agreed on, and the sites' rows of these."""
    if names_step(method) is None:
        return (), sites
    if policy.class_floors == (1, 1):
        return tuple(method_classes(method, sites)), sites
    rows = Counter[str]()
    there = Counter[str]()
    for site in sites:
        counts = Counter(site.y.astype(str).tolist())
        rows.update(counts)
        there.update(set(counts))
    least_sites, least_rows = policy.class_floors
    wanted = method_classes(method, sites)
    kept = tuple(name for name in wanted if there[name] >= least_sites and rows[name] >= least_rows)
    return kept, [site.take(np.isin(site.y.astype(str), kept)) for site in sites]


def shape_like(
    count: int,
    *,
    rows: int = 0,
    columns: int = 1,
    classes: Sequence[str] = ("a", "b"),
    policy: Policy | None = None,
    **known: Any,
) -> Shape:
    """Return the shape of a run over so many sites of such tables, without any table."""
    width = max(2, len(str(count - 1)))
    names = tuple(f"s{number:0{width}}" for number in range(count))
    return Shape(names, columns, tuple(classes), rows=rows, policy=policy or Policy(), **known)


def method_classes(method: Method, sites: Sequence[SiteData]) -> list[str]:
    """Return the classes of a run: those of its terms, or the union of the sites' names."""
    given = getattr(method, "classes", None)
    return list(given) if given else sorted(label_names(sites))


def stops_at(
    method: Method, *, rows: int, columns: int, classes: Sequence[str], policy: Policy | None = None
) -> tuple[int, str]:
    """Return the largest number of sites of such tables that a run can have, and what stops it there."""
    limit = min((policy or Policy()).max_message_bytes, LARGEST_MESSAGE)

    def stopped(count: int) -> str:
        shape = shape_like(count, rows=rows, columns=columns, classes=classes, policy=policy)
        try:
            costs = costs_of(method, shape)
        except InputError as error:
            return str(error)
        large = max(costs.exchanges, key=lambda one: one.largest)
        return f"{large.kind!r} has {costs.largest:,} bytes" if costs.largest > limit else ""

    low = 3
    high = MOST_SITES
    why = stopped(MOST_SITES)
    if not why:
        return MOST_SITES, f"no message holds more than {MOST_SITES:,} names"
    while high - low > max(1, low // 50):  # a round figure is enough
        middle = (low * high) ** 0.5 if high > 4 * low else (low + high) / 2
        said = stopped(int(middle))
        if said:
            high = int(middle)
            why = said
        else:
            low = int(middle)
    return low, why

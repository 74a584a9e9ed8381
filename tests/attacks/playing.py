"""A coordinator that lies to real sites, and what an attack is.

Sites are those that a deployment has: `SiteRunner`, encoded messages, memory as bytes between two questions. The liar
is an engine itself: the honest coordinator's half runs on top of it, while it changes, withholds and adds questions.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.messages import Array, Question, Refusal, decode, encode, pack, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.fixed_point import RING, from_fixed, to_fixed
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult, hash_question
from tests.protocols.summing import secure_sum

Floats = npt.NDArray[np.float64]
replace = msgspec.structs.replace
STRICT, PERMISSIVE = StrictPolicy(), Policy()


class Learnt(NamedTuple):
    """What an attacker has in the end: a measured value in words, and whether it is what the attack was after."""

    now: str
    succeeds: bool


@dataclass(frozen=True)
class Outcome:
    """One attack on one method."""

    name: str
    method: str
    policy: str
    before: str
    now: str
    succeeds: bool

    @property
    def key(self) -> str:
        """How the outcome is called in tables."""
        return f"{self.name} ({self.method})"


@dataclass(frozen=True)
class Attack:
    """An attack, the methods it is played against, and what release 0.1 gave away."""

    name: str
    methods: tuple[str, ...]
    before: str
    play: Callable[..., Learnt]
    policy: str = "strict"
    """Whether the promise is one of real sites ("strict") or holds in simulations too ("permissive")."""

    def attack(self, method: str, *, quick: bool = True) -> Outcome:
        """Play it against one method; ``quick``: smaller sizes."""
        found = self.play(method, STRICT if self.policy == "strict" else PERMISSIVE, quick)
        return Outcome(self.name, method, self.policy, self.before, found.now, bool(found.succeeds))


def refused(error: Exception | str) -> Learnt:
    """Return that the attacker got nothing but a refusal."""
    return Learnt(f"refused: {' '.join(str(error).split())}"[:170], False)


Change = Callable[[str, Any], Any]
LOSE = "lose"
"""What a change returns to withhold a question: the site looks lost."""


class Liar:
    """Asks real sites what it likes; what it hears is in ``heard``."""

    def __init__(
        self,
        method: Method,
        sites: Sequence[SiteData],
        policy: Policy,
        *,
        seed: int = 0,
        change: Change | None = None,
    ):
        self.method, self.data = method, {site.name: site for site in sites}
        self.engine = EmbeddedEngine(method, sites, policy=policy)
        self.run, self.change = os.urandom(32), change
        self.heard: list[tuple[str, Any, Any]] = []
        """Site, question and answer (or refusal), in the order in which they were asked."""
        # Without a roster the honest half checks no signatures: a liar would leave nobody out who helps it.
        self.talk = Coordinator(self, run=self.run, method=method.name, seed=seed)

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self.engine.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Carry the honest half's questions, or others in their place."""
        for name, request in requests.items():
            frame = unpack(request)
            question: Any = decode(frame.body, self.method.site.understands()[frame.kind])
            if self.change is not None:
                changed = self.change(name, question)
                if changed is LOSE:
                    yield name, Lost("withheld by the attacker")
                    continue
                question = question if changed is None else changed
            self.ask(name, question)
            yield name, self._reply

    def ask(self, name: str, question: Question) -> Any:
        """Ask one site; keep its memory as an engine would; return its answer or refusal."""
        request = pack(self.run, self.method.name, question)
        self._reply, self.engine.memories[name] = self.engine.runners[name].answer(
            request, self.engine.memories.get(name)
        )
        frame = unpack(self._reply)
        answer = decode(frame.body, Refusal if frame.kind == Refusal.kind else question.answer)
        self.heard.append((name, question, answer))
        return answer

    def has_left(self, name: str) -> bool:
        """Say whether a site has left the run for good."""
        return bool(msgspec.msgpack.decode(self.engine.memories[name]).get("left"))

    def refusal(self, error: Exception | str = "") -> Learnt:
        """Return that the attacker got nothing, with the reason that most sites gave."""
        reasons = Counter(answer.reason for _, _, answer in self.heard if isinstance(answer, Refusal))
        return refused(reasons.most_common(1)[0][0] if reasons else error)

    def join(self) -> Cohort:
        """Let the sites join as they should."""
        return join(self.talk, self.method)

    def as_site(self, name: str) -> Any:
        """Act as a site that has changed sides: its keys, its memory."""
        return self.engine.runners[name].restore(self.run, self.engine.memories.get(name))

    def sum(
        self, cohort: Cohort, question: SumQuestion, round: int, length: int, participants: Iterable[str]
    ) -> Floats:
        """Return the sum of real numbers over sites of the attacker's choice, in a round of its choice."""
        total = secure_sum(
            cohort.joined, round, question, modulus=RING.modulus, length=length, participants=participants
        )
        return from_fixed(total.vector, fraction_bits=question.fraction_bits)


def rounds_of(way: Any, kind: type[SumQuestion]) -> list[int]:
    """Return the rounds of a run that are planned for a kind of question."""
    planned = way.site.all_sums(way)
    return [number for number, one in enumerate(planned) if one is kind]


def forged(result: SumResult, values: Floats, kind: type[SumQuestion]) -> SumResult:
    """Return a result with other numbers in it, and the tag of the true one."""
    words = to_fixed(values, fraction_bits=kind.fraction_bits, sites=1)
    return replace(result, total=Array.of(words))


def made_up(values: Floats, kind: type[SumQuestion], round: int = 0, sites: tuple[str, ...] = ()) -> SumResult:
    """Return a result that no sum ever had."""
    zeros = Array.of(np.zeros(3, np.uint64))
    return forged(SumResult(round=round, sites=sites, total=zeros, tag=zeros), values, kind)


def stamped(question: SumQuestion, **changes: Any) -> Any:
    """Change a question for a sum and make its ticket out for it, as a coordinator that lies to all would."""
    changed = replace(question, **changes)
    return replace(changed, ticket=replace(changed.ticket, question_hash=hash_question(changed)))


def patients(
    sites: int = 4, rows: int = 20, columns: int = 4, *, seed: int = 0, classes: Sequence[str] = ("no", "yes")
) -> list[SiteData]:
    """Return sites with ordinary tables: correlated columns of different scales, labels that depend on them."""
    rng = np.random.default_rng(seed)
    mix, weights = rng.normal(size=(columns, columns)), rng.normal(size=columns)
    found = []
    for number in range(sites):
        X = rng.normal(size=(rows, columns)) @ mix + rng.normal(size=columns)
        order = np.argsort(X @ weights + rng.normal(size=rows))
        y = np.empty(rows, dtype=object)
        for place, row in enumerate(order):
            y[row] = classes[place * len(classes) // rows]
        found.append(SiteData(f"s{number:03d}", X, y.astype(str)))
    return found


def rows_read(guesses: Iterable[npt.ArrayLike], truth: npt.NDArray[Any], *, tolerance: float = 1e-3) -> int:
    """Count the rows of a table that some guess comes close to, in standard deviations of the columns."""
    spread = truth.std(axis=0)
    found = {
        int(row)
        for guess in guesses
        for row in np.flatnonzero((np.abs(truth - np.asarray(guess)) / spread).max(axis=1) < tolerance)
    }
    return len(found)


def same(found: npt.ArrayLike, truth: npt.ArrayLike, *, tolerance: float = 1e-3) -> bool:
    """Say whether an attacker's vector is the victim's, up to a small relative error."""
    a, b = np.asarray(found, np.float64).ravel(), np.asarray(truth, np.float64).ravel()
    return a.shape == b.shape and bool(np.linalg.norm(a - b) <= tolerance * max(float(np.linalg.norm(b)), 1e-12))


def size_of(question: Question) -> int:
    """Return how many bytes a question has."""
    return len(encode(question))

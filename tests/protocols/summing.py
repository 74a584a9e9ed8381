"""A tiny method that sums the sites' first column: the smallest thing that runs the whole secure sum."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.messages import Message, decode, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.plan import Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.settings import Between
from fedgeom.federation.site import Site, answers
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.join.coordinator import Joined
from fedgeom.protocols.secure_sum.coordinator import Total, collect, request_sum, unmask
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite
from tests.unlisted import unlisted

M = TypeVar("M", bound=Message)
Interfere = Callable[[str, bytes], str | None]


def secure_sum(joined: Joined, round: int, question: SumQuestion, *, min_sites: int = 2, **asked: Any) -> Total:
    """Return the sum of one round over sites of the caller's choice, whatever the plan says."""
    found = collect(joined, request_sum(joined, round, question, **asked), min_sites=min_sites)
    return unmask(joined, found, min_sites=min_sites)


class SumColumn(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.column"
    times: int = 1
    turn: int = 0
    """Which sum of a run it is: the same question over fewer sites is refused."""


class ColumnSite(SummingSite[SecureMemory]):
    @answers(SumColumn)
    def column(self, ask: SumColumn) -> Contribution:
        return self.contribute(ask, self.data.X[:, 0].astype(np.uint64) * np.uint64(ask.times))


@unlisted
@dataclass(frozen=True, kw_only=True)
class ColumnSum(Method):
    name: ClassVar[str] = "column-sum"
    site: ClassVar[type[Site[Any]]] = ColumnSite

    rounds: Annotated[int, Between(0, 100)] = 1
    epsilon: float = 0.01
    """Decides nothing: terms can differ in it."""
    min_sites: int = 2

    def plan(self, shape: Shape) -> Plan:
        """Sum the column in every round; only the kind and number of the sums matter here."""
        for turn in range(self.rounds):
            yield Sum(SumColumn(turn=turn), length=shape.rows)


def make_sites(n: int, length: int = 7, seed: int = 0, bound: int = 1000) -> list[SiteData]:
    rng = np.random.default_rng(seed)
    return [
        SiteData(f"s{i:04d}", rng.integers(0, bound, (length, 1)).astype(float), np.zeros(length))
        for i in range(n)
    ]


def start(
    data: list[SiteData],
    *,
    policy: Policy | None = None,
    interfere: Interfere | None = None,
    method: Method | None = None,
) -> tuple[Coordinator, EmbeddedEngine]:
    method = method or ColumnSum()
    engine = EmbeddedEngine(method, data, policy=policy, interfere=interfere)
    return Coordinator(engine, run=os.urandom(32), method=method.name), engine


def joined(sites: Coordinator, rounds: int = 1, **settings: Any) -> Cohort:
    return join(sites, ColumnSum(rounds=rounds, **settings))


def column_sum(sites: Coordinator, *, modulus: int, length: int = 7, rounds: int = 1) -> list[Total]:
    cohort = joined(sites, rounds)
    totals = []
    for turn in range(rounds):
        vector = cohort.sum_elements(SumColumn(turn=turn), modulus=modulus, length=length)
        totals.append(Total(vector, cohort.left))
    return totals


def killer(plan: dict[str, tuple[str, int]], *, for_good: bool = True) -> Interfere:
    """Lose each named site at the n-th question of a kind, and from then on (or for that question only)."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    dead: set[str] = set()

    def interfere(name: str, request: bytes) -> str | None:
        kind = unpack(request).kind
        counts[name, kind] += 1
        if name in dead:
            return "still gone"
        if name in plan and plan[name] == (kind, counts[name, kind]):
            if for_good:
                dead.add(name)
            return f"killed at {kind}"
        return None

    return interfere


class Recorder:
    """An engine that writes down all the coordinator sees: names, requests and answers."""

    def __init__(self, engine: EmbeddedEngine):
        self.engine = engine
        self.seen: list[tuple[str, bytes, bytes]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return self.engine.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in self.engine.deliver(requests):
            self.seen.append((name, requests[name], reply if isinstance(reply, bytes) else b""))
            yield name, reply

    def answers(self, kind: type[M]) -> list[tuple[str, M]]:
        """Return the answers of a kind, with who gave them."""
        frames = [(name, unpack(reply)) for name, _, reply in self.seen if reply]
        return [(name, decode(frame.body, kind)) for name, frame in frames if frame.kind == kind.kind]


def record(
    data: list[SiteData], *, policy: Policy | None = None, interfere: Interfere | None = None
) -> tuple[Coordinator, Recorder]:
    recorder = Recorder(EmbeddedEngine(ColumnSum(), data, policy=policy, interfere=interfere))
    return Coordinator(recorder, run=os.urandom(32), method=ColumnSum.name), recorder


def remembered(engine: EmbeddedEngine, name: str) -> SecureMemory:
    return msgspec.msgpack.decode(engine.memories[name], type=SecureMemory)


def plain_sum(data: list[SiteData], names: tuple[str, ...], modulus: int) -> np.ndarray:
    columns = [site.X[:, 0].astype(np.uint64).tolist() for site in data if site.name in names]
    return np.array([sum(row) % modulus for row in zip(*columns, strict=True)], dtype=np.uint64)

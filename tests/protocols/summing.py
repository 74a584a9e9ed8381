"""A tiny method that sums the sites' first column: the smallest thing that runs the whole secure sum."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, TypeVar

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation.conversation import Lost, Sites
from fedgeom.federation.messages import Message, Question, decode, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import answers
from fedgeom.protocols.cohort import SecureMemory, join
from fedgeom.protocols.secure_sum import MaskedVector, Ticket, Total, secure_sum
from fedgeom.protocols.summing_site import SummingSite

M = TypeVar("M", bound=Message)


class GiveColumn(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.column"
    answer: ClassVar[type[Message]] = MaskedVector
    ticket: Ticket
    times: int = 1


class ColumnSite(SummingSite[SecureMemory]):
    @answers(GiveColumn)
    def give(self, ask: GiveColumn) -> MaskedVector:
        self.admit(ask.ticket)
        return self.mask(ask.ticket, self.data.X[:, 0].astype(np.uint64) * np.uint64(ask.times))


class ColumnSum(Method):
    name = "column-sum"
    site = ColumnSite


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
    interfere: Callable[[str, bytes], str | None] | None = None,
) -> tuple[Sites, EmbeddedEngine]:
    engine = EmbeddedEngine(ColumnSum(), data, policy=policy, interfere=interfere)
    return Sites(engine, run=os.urandom(32), method=ColumnSum.name), engine


def column_sum(sites: Sites, *, modulus: int, length: int = 7, rounds: int = 1) -> list[Total]:
    cohort = join(sites, rounds=rounds)
    among: tuple[str, ...] = cohort.names
    totals = []
    for round in range(rounds):
        total = secure_sum(
            cohort, round, lambda ticket: GiveColumn(ticket=ticket), modulus=modulus, length=length, among=among
        )
        totals.append(total)
        among = total.sites
    return totals


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
    data: list[SiteData],
    *,
    policy: Policy | None = None,
    interfere: Callable[[str, bytes], str | None] | None = None,
) -> tuple[Sites, Recorder]:
    recorder = Recorder(EmbeddedEngine(ColumnSum(), data, policy=policy, interfere=interfere))
    return Sites(recorder, run=os.urandom(32), method=ColumnSum.name), recorder


def remembered(engine: EmbeddedEngine, name: str) -> SecureMemory:
    return msgspec.msgpack.decode(engine.memories[name], type=SecureMemory)


def plain_sum(data: list[SiteData], names: tuple[str, ...], modulus: int) -> np.ndarray:
    columns = [site.X[:, 0].astype(np.uint64).tolist() for site in data if site.name in names]
    return np.array([sum(row) % modulus for row in zip(*columns, strict=True)], dtype=np.uint64)

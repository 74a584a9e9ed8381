"""A tiny method that sums the sites' first column: the smallest thing that runs the whole secure sum."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.federation.engines.embedded import EmbeddedEngine
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import answers
from fedgeom.federation.sites import Sites
from fedgeom.protocols.cohort import SecureMemory, join
from fedgeom.protocols.secure_sum import MaskedVector, SummingSite, Ticket, Total, secure_sum


class GiveColumn(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.column"
    answer: ClassVar[type[Message]] = MaskedVector
    ticket: Ticket


class ColumnSite(SummingSite[SecureMemory]):
    @answers(GiveColumn)
    def give(self, ask: GiveColumn) -> MaskedVector:
        self.admit(ask.ticket)
        return self.mask(ask.ticket, self.data.X[:, 0].astype(np.uint64))


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


def plain_sum(data: list[SiteData], names: tuple[str, ...], modulus: int) -> np.ndarray:
    columns = [site.X[:, 0].astype(object) for site in data if site.name in names]
    return np.array([int(v) % modulus for v in sum(columns)], dtype=np.uint64)

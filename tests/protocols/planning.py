"""Helpers: a run of a method on drawn rows, beside what its plan says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import fedgeom
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.protocols.plan import Costs, costs_of, shape_of

CLASSES = np.array(["a", "bb", "a class of many words"])
COLUMNS = 6


def drawn(names: Sequence[str], rows: int = 40) -> list[fedgeom.SiteData]:
    """Return sites of three classes in six columns."""
    rng, kinds = np.random.default_rng(0), np.arange(rows) % 3
    columns = tuple(f"c{at}" for at in range(COLUMNS))
    return [
        fedgeom.SiteData(
            name, rng.normal(size=(rows, COLUMNS)) + 3 * np.eye(COLUMNS)[kinds], CLASSES[kinds], columns=columns
        )
        for name in names
    ]


@dataclass(frozen=True)
class Held:
    """A run, and what was said of it before."""

    told: Costs
    ledger: Ledger
    seconds: float
    """Processor time of the whole run."""

    def check(self) -> None:
        """Compare kinds, messages and bytes: to the last one where nothing is a bound, and within bounds else."""
        entries = list(self.ledger)
        steps = max(entry.step for entry in entries)
        came = {(one.kind, one.reveals): Figures() for one in entries}
        for one in entries:
            came[one.kind, one.reveals].add(1, one.bytes, one.received)
        told = {(one.answer, one.reveals): Figures() for one in self.told.exchanges}
        bounds = {(one.answer, one.reveals) for one in self.told.exchanges if one.bound}
        for exchange in self.told.exchanges:
            count = exchange.times * exchange.sites
            told[exchange.answer, exchange.reveals].add(count, count * exchange.up, count * exchange.down)
        assert set(came) <= set(told)
        assert max(max(one.bytes, one.received) for one in entries) <= self.told.largest + 1
        for key, found in came.items():
            if key in bounds:
                assert found.within(told[key]), key
            else:
                assert found == told[key], key
        if bounds:
            assert sum(one.bytes for one in entries) <= self.told.total_up
            assert sum(one.received for one in entries) <= self.told.total_down
            return
        assert list(came) == list(told)  # in the order in which they come first
        everyone = all(one.sites == self.told.sites for one in self.told.exchanges)
        assert not everyone or self.told.questions == steps


@dataclass
class Figures:
    """How many messages of a kind there are, and their bytes."""

    messages: int = 0
    up: float = 0.0
    down: float = 0.0

    def add(self, messages: int, up: float, down: float) -> None:
        """Count messages."""
        self.messages += messages
        self.up = round(self.up + up, 3)
        self.down = round(self.down + down, 3)

    def within(self, bound: Figures) -> bool:
        """Say whether these are no more than others."""
        return self.messages <= bound.messages and self.up <= bound.up and self.down <= bound.down


def held(
    method: Method,
    names: Sequence[str],
    policy: Policy | None = None,
    sites: Sequence[fedgeom.SiteData] | None = None,
    seed: int = 0,
) -> Held:
    """Hold a run over drawn rows, or those of given sites."""
    data = list(sites) if sites is not None else drawn(names)
    told = costs_of(method, shape_of(method, data, policy, seed))
    began = time.process_time()
    run = fedgeom.run(method, data, policy=policy, seed=seed)
    assert not run.lost
    return Held(told, run.ledger, time.process_time() - began)

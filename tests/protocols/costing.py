"""Helpers: a run of a method on drawn rows, beside what its sheet says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from fedgeom.engines.costs import costs_of
from fedgeom.protocols.costs import Costs

import fedgeom
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy

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
        """Compare questions and bytes, to the last one."""
        assert self.told.questions == max(entry.step for entry in self.ledger)
        assert self.told.total_up == sum(entry.bytes for entry in self.ledger)
        assert self.told.total_down == sum(entry.received for entry in self.ledger)


def held(method: Method, names: Sequence[str], policy: Policy | None = None) -> Held:
    """Hold a run over drawn rows."""
    sites = drawn(names)
    told = costs_of(method, sites, policy)
    began = time.process_time()
    run = fedgeom.run(method, sites, policy=policy)
    return Held(told, run.ledger, time.process_time() - began)

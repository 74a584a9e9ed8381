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
        """Compare questions, kinds and bytes, to the last one where nothing is a bound, and within bounds else."""
        sent = sum(entry.bytes for entry in self.ledger)
        received = sum(entry.received for entry in self.ledger)
        kinds = {entry.kind for entry in self.ledger}
        steps = max(entry.step for entry in self.ledger)
        assert kinds <= {one.answer for one in self.told.exchanges}
        assert {entry.reveals for entry in self.ledger} <= {one.reveals for one in self.told.exchanges}
        if any(one.bound for one in self.told.exchanges):
            assert steps <= self.told.questions
            assert sent <= self.told.total_up
            assert received <= self.told.total_down
            return
        assert (self.told.questions, self.told.total_up, self.told.total_down) == (steps, sent, received)
        assert kinds == {one.answer for one in self.told.exchanges}


def held(
    method: Method,
    names: Sequence[str],
    policy: Policy | None = None,
    sites: Sequence[fedgeom.SiteData] | None = None,
) -> Held:
    """Hold a run over drawn rows, or those of given sites."""
    data = list(sites) if sites is not None else drawn(names)
    told = costs_of(method, shape_of(method, data, policy))
    began = time.process_time()
    run = fedgeom.run(method, data, policy=policy)
    assert not run.lost
    return Held(told, run.ledger, time.process_time() - began)

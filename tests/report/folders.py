"""Run folders to try pages on, made without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedgeom.federation.coordinator import Event
from fedgeom.federation.ledger import LedgerEntry
from fedgeom.federation.record import RunRecord

MASKED = "masked; with all others: sums"


def folder_of(
    path: Path,
    *,
    sites: int = 3,
    rounds: int = 4,
    method: str = "fedavg",
    parameters: dict[str, Any] | None = None,
    metrics: dict[str, Any] | None = None,
) -> Path:
    """Write the record of a run: keys, some rounds of a masked sum with what belongs to it, and a receipt."""
    names = [f"site-{at:03}" for at in range(sites)]
    config = {
        "method": method,
        "seed": 7,
        "parameters": parameters or {"n_rounds": rounds, "learning_rate": 0.1, "validation_fraction": 0.0},
        "sites": {name: {"rows": 40, "columns": 5} for name in names},
    }
    record = RunRecord(path, config)
    plan = [("join.hello", "join.keys", "public keys", 500)]
    for _ in range(rounds):
        plan += [
            ("train.masked", "sum.masked", MASKED, 4000),
            ("sum.confirm", "sum.confirmation", "nothing: a signature", 100),
            ("sum.unmask", "sum.shares", "shares of mask seeds", 200),
        ]
    plan.append(("train.finish", "train.finished", "nothing: a receipt", 60))
    for step, (question, answer, reveals, size) in enumerate(plan, start=1):
        for name in names:
            record.event(Event(step, question, name, "asked"))
        for name in names:
            record.event(Event(step, question, name, "answered"))
            record.enter(LedgerEntry(step=step, site=name, kind=answer, bytes=size, received=300, reveals=reveals))
    for name, value in (metrics or {"sites": sites, "classes": 2, "seconds": 1.25}).items():
        record.metric(name, value)
    record.finish()
    return path

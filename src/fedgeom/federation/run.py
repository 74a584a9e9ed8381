"""Run a method over sites in this process and keep what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation import modelfile
from fedgeom.federation.engines.embedded import EmbeddedEngine
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.method import Method, Model
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import RunRecord
from fedgeom.federation.sites import Event, Sites


@dataclass(frozen=True)
class Run:
    """A finished run."""

    model: Any
    ledger: Ledger
    metrics: dict[str, Any]
    sites: list[SiteData]
    local: dict[str, dict[str, Any]]
    """What each site itself learnt, by site name; in a deployment this stays at the site."""
    lost: dict[str, str]
    """The sites that dropped out, and why."""
    artifacts: dict[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)
    """What the coordinator decoded on the way (hulls, bins), for pictures."""
    folder: Path | None = None


def run(
    method: Method,
    sites: Sequence[SiteData],
    seed: int = 0,
    *,
    policy: Policy | None = None,
    record: str | Path | None = None,
    watch: Callable[[Event], None] | None = None,
    interfere: Callable[[str, bytes], str | None] | None = None,
) -> Run:
    """Run ``method`` over ``sites``, all in this process, through the same bytes as on a network.

    ``policy`` holds for every site; ``record`` names a folder to write the run to; ``watch`` is told of
    each question and answer; ``interfere(site, request)`` may return a reason to lose a site. The same
    seed gives the same model; keys and masks are new each time.
    """
    data = list(sites)
    if not data:
        raise InputError("no sites were given; wanted a list of SiteData, for example from fedgeom.split(...)")
    engine = EmbeddedEngine(method, data, policy=policy, interfere=interfere)
    run_id = os.urandom(32)
    engine.check(run_id, method.parameters())
    method.check_together(data)
    conversation = Sites(engine, run=run_id, method=method.name, seed=seed)
    if watch is not None:
        conversation.listeners.append(watch)
    log = _open_record(record, method, data, seed)
    if log is not None:
        conversation.ledger.listeners.append(log.enter)
    try:
        began = time.perf_counter()
        model = method.conduct(conversation)
        conversation.metrics["seconds"] = round(time.perf_counter() - began, 3)
    except KeyboardInterrupt:
        _end(log, "interrupted", "stopped by the user")
        raise
    except Exception as error:
        _end(log, "failed", str(error))
        raise
    finished = Run(
        model=model,
        ledger=conversation.ledger,
        metrics=conversation.metrics,
        sites=data,
        local=engine.results(run_id),
        lost=conversation.lost,
        artifacts=conversation.artifacts,
        folder=None if log is None else log.folder,
    )
    if log is not None:
        _keep(log, method, model, finished)
    return finished


def _open_record(
    record: str | Path | None, method: Method, sites: Sequence[SiteData], seed: int
) -> RunRecord | None:
    if record is None:
        return None
    config = {
        "method": method.name,
        "parameters": method.parameters(),
        "seed": seed,
        "engine": "embedded",
        "sites": {site.name: {"rows": len(site), "columns": site.X.shape[1]} for site in sites},
    }
    return RunRecord(record, config)


def _keep(log: RunRecord, method: Method, model: Model, finished: Run) -> None:
    tensors, facts = model.tensors()
    log.model(modelfile.to_bytes(method.name, tensors, facts))
    for name, value in finished.metrics.items():
        log.metric(name, value)
    log.artifacts(finished.artifacts)
    log.sites(finished.local)
    _end(log, "finished")


def _end(log: RunRecord | None, state: str, detail: str = "") -> None:
    if log is not None:
        log.status(state, detail)
        log.close()

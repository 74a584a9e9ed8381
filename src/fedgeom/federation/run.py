"""Run a method over sites in this process and keep what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
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

    @property
    def labels(self) -> dict[str, npt.NDArray[Any]]:
        """Each site's own labels for its rows, where the method yields labels."""
        return {name: np.asarray(result["labels"]) for name, result in self.local.items() if "labels" in result}

    @property
    def confidences(self) -> dict[str, npt.NDArray[Any]]:
        """Each site's own confidence in its labels, from 0 to 1."""
        found = {name: result["confidences"] for name, result in self.local.items() if "confidences" in result}
        return {name: np.asarray(values) for name, values in found.items()}


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
    conversation = Sites(engine, run=run_id, method=method.name, seed=seed, roster=engine.roster)
    if watch is not None:
        conversation.listeners.append(watch)
    log = _open_record(record, method, data, seed)
    model = converse(method, conversation, log)
    local = engine.results(run_id)
    if log is not None:
        log.sites(local)
        log.finish()
    return Run(
        model=model,
        ledger=conversation.ledger,
        metrics=conversation.metrics,
        sites=data,
        local=local,
        lost=conversation.lost,
        artifacts=conversation.artifacts,
        folder=None if log is None else log.folder,
    )


def converse(method: Method, sites: Sites, log: RunRecord | None) -> Model:
    """Let a method hold its conversation, and write down what comes of it, also when it breaks off."""
    if log is not None:
        sites.ledger.listeners.append(log.enter)
        sites.listeners.append(log.event)
        sites.keepers.append(log.keep)
    began = time.perf_counter()
    try:
        model = method.conduct(sites)
    except KeyboardInterrupt:
        if log is not None:
            log.finish("interrupted", "stopped by the user")
        raise
    except Exception as error:
        if log is not None:
            log.finish("failed", str(error))
        raise
    sites.metrics["seconds"] = round(time.perf_counter() - began, 3)
    if log is not None:
        log.model(modelfile.to_bytes(method.name, *model.tensors()))
        for name, value in sites.metrics.items():
            log.metric(name, value)
        log.artifacts(sites.artifacts)
    return model


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

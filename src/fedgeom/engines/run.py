"""Run a method over sites in this process and keep what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import Identity
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation import modelfile
from fedgeom.federation.conversation import Event, Sites
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.method import Method, Model
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import RunRecord, as_plain
from fedgeom.federation.resume import Safe, check_same
from fedgeom.federation.transcript import Transcript


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
    resumable: bool = False,
    resume: bool = False,
    watch: Callable[[Event], None] | None = None,
    interfere: Callable[[str, bytes], str | None] | None = None,
) -> Run:
    """Run ``method`` over ``sites``, all in this process, through the same bytes as on a network.

    ``policy`` holds for every site; ``record`` names a folder to write the run to; ``watch`` is told of
    each question and answer; ``interfere(site, request)`` may return a reason to lose a site. The same
    seed gives the same model; keys and masks are new each time.

    ``resumable`` keeps in the record, until the run is finished, what it takes to go on after the process
    died: with the secrets of the sites, so only for sites that are simulated here. ``resume`` goes on with the
    run in ``record``, given the same method, sites and seed; the model is the one it would have been. Where
    there is no run yet, it begins a resumable one.
    """
    data = list(sites)
    if not data:
        raise InputError("no sites were given; wanted a list of SiteData, for example from fedgeom.split(...)")
    if record is None and (resumable or resume):
        raise InputError("resumable and resume need record, the folder in which the run is kept")
    config = _config(method, data, seed)
    going_on = resume and record is not None and (Path(record) / "config.json").exists()
    safe = Safe(record) if record is not None and (resumable or resume) else None
    if going_on:
        _check_unfinished(record, config)
    engine, run_id = _engine(method, data, policy, interfere, safe if going_on else None)
    engine.check(run_id, method.parameters())
    method.check_together(data)
    if safe is not None and not going_on and not (safe.folder.parent / "config.json").exists():
        safe.begin(data)
        engine, run_id = _engine(method, data, policy, interfere, safe)
    log = None if record is None else RunRecord(record, config, resume=going_on)
    transcript = None if safe is None else Transcript(engine, safe.transcript)
    conversation = Sites(transcript or engine, run=run_id, method=method.name, seed=seed, roster=engine.roster)
    if watch is not None:
        conversation.listeners.append(watch)
    try:
        model = converse(method, conversation, log)
    except TooFewSitesError:
        if transcript is not None:
            transcript.forgive()  # whoever resumes the run does so because the lost sites are back
        raise
    finally:
        if safe is not None:
            safe.release()
    local = engine.results(run_id)
    if log is not None:
        log.sites(local)
        log.finish()
    if safe is not None:
        safe.forget()
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


def _engine(
    method: Method,
    sites: Sequence[SiteData],
    policy: Policy | None,
    interfere: Callable[[str, bytes], str | None] | None,
    safe: Safe | None,
) -> tuple[EmbeddedEngine, bytes]:
    """Return an engine and the run's number: new ones, or those that were kept."""
    if safe is None:
        return EmbeddedEngine(method, sites, policy=policy, interfere=interfere), os.urandom(32)
    begun = safe.find(sites)
    engine = EmbeddedEngine(
        method,
        sites,
        policy=policy,
        interfere=interfere,
        identities={name: Identity(secret) for name, secret in begun.identities.items()},
        memories=safe.memories(),
    )
    return engine, begun.run


def _check_unfinished(record: str | Path | None, config: dict[str, Any]) -> None:
    """Refuse to resume what is finished or has other settings."""
    assert record is not None
    folder = Path(record)
    status = msgspec.json.decode((folder / "status.json").read_bytes())
    if status["state"] == "finished":
        Safe(folder).forget()  # it may have died between the last word and the cleaning up
        raise InputError(f"the run in {folder} is finished; its model is {folder / 'model.safetensors'}")
    before = msgspec.json.decode((folder / "config.json").read_bytes())
    check_same(folder, before, msgspec.json.decode(msgspec.json.encode(config, enc_hook=as_plain)))


def _config(method: Method, sites: Sequence[SiteData], seed: int) -> dict[str, Any]:
    return {
        "method": method.name,
        "parameters": method.parameters(),
        "seed": seed,
        "engine": "embedded",
        "sites": {site.name: {"rows": len(site), "columns": site.X.shape[1]} for site in sites},
    }

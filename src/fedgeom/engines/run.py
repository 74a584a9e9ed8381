"""Run a method over sites in this process and keep what came of it."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.crypto.keys import Identity
from fedgeom.data.kinds import Kind
from fedgeom.data.readiness import Report
from fedgeom.data.rows import looking_once
from fedgeom.data.sites import SiteData
from fedgeom.engines.check import NAMES, CheckedSites, check_aligned
from fedgeom.engines.embedded import EmbeddedEngine, Interfere
from fedgeom.engines.network import Network, NetworkEngine
from fedgeom.engines.workers import check_jobs
from fedgeom.errors import InputError
from fedgeom.evaluation.rivals import evaluate_run
from fedgeom.federation.conversation import Event
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.record import RunRecord, read_status
from fedgeom.federation.results import Run
from fedgeom.federation.resume import ResumeStore, check_same
from fedgeom.federation.run_warnings import RunWarning, warning_of
from fedgeom.federation.session import Session
from fedgeom.methods.catalogue import as_method
from fedgeom.registry import Registry
from fedgeom.storage import to_json

logger = logging.getLogger(__name__)

ENGINES = Registry("engine", "fedgeom.engines")
"""The engines that can simulate sites; other packages offer classes with the interface of `EmbeddedEngine`."""
ENGINES.add("embedded", EmbeddedEngine)
ENGINES.offer("flower-loopback", "fedgeom.engines.flower.loopback:FlowerLoopbackEngine", needs="flwr")


@looking_once()
def run(
    method: Method | type[Method] | str,
    sites: Sequence[SiteData],
    seed: int = 0,
    *,
    engine: str | type[EmbeddedEngine] = "embedded",
    holdout: float | Holdout | None = None,
    policy: Policy | None = None,
    record: str | Path | None = None,
    resumable: bool = False,
    resume: bool = False,
    watch: Callable[[Event], None] | None = None,
    interfere: Interfere | None = None,
    n_jobs: int = 1,
    network: Network | None = None,
    writers: Sequence[str] = (),
    chosen: str = "",
    checked: CheckedSites | None = None,
) -> Run:
    """Run ``method`` over ``sites``, all in this process, through the same bytes as on a network.

    ``method`` is a method with its settings, or, for the default settings, its class or name (``fedgeom methods``).
    ``engine`` names what carries the questions; "flower-loopback" encodes them as a deployment does. ``policy`` holds
    for every site; ``record`` names a folder to write the run to; ``watch`` is told of each question and answer;
    ``interfere(site, request)`` may return a reason to lose a site; ``n_jobs`` processes answer for the sites, side by
    side; with ``network``, `Run.timing` tells how long the run would take on such a network. The same seed gives the
    same model, always; keys and masks are new each time. ``chosen`` is for the record, as are ``writers``
    ("tensorboard", "mlflow"); with ``checked``, from `check_aligned` with the same arguments, tables are not looked at.

    With ``holdout=0.25``, each site keeps a quarter of its rows aside, class by class, and the model is tested there:
    ``run.evaluation`` has the figures, beside simple rivals.

    ``resumable`` keeps in the record, until the run is finished, what it takes to go on after the process died: with
    the secrets of the sites, so only for sites that are simulated here. ``resume`` goes on with the run in ``record``,
    given the same method, sites and seed; the model is the one it would have been. No run yet: a resumable one begins.
    """
    method, seed = as_method(method), operator.index(seed)
    if holdout is not None:
        method = replace(method, holdout=Holdout.read(holdout, "holdout"))
    if record is None and (resumable or resume or writers):
        raise InputError("resumable and resume need record, the run's folder, and so do writers")
    made = _engine_class(engine, n_jobs, network)
    found = check_aligned(method, sites, policy, seed=seed) if checked is None else checked
    found.report.raise_errors(but=("policy",))  # a policy's noes the sites themselves say, and the record has them
    data = found.sites
    config = _config(method, data, seed, made.name) | ({"chosen": chosen} if chosen else {})
    going_on = resume and record is not None and (Path(record) / "config.json").exists()
    store = ResumeStore(record) if record is not None and (resumable or resume) else None
    if going_on:
        _check_unfinished(record, config)
    options = {"policy": policy, "interfere": interfere, **({"n_jobs": n_jobs} if n_jobs != 1 else {})}
    carrier, number = _engine(made, method, data, options, store if going_on or _began(store, data) else None)
    log = None if record is None else RunRecord(record, config, resume=going_on, writers=writers)
    transcript = None if store is None else store.transcript
    kinds = _kinds(method, found)
    session = Session(
        method, number, seed, carrier.roster, log, transcript, watch, columns=found.columns, kinds=kinds
    )
    carried = NetworkEngine(carrier, network) if network else carrier
    return _hold(session, carried, data, store, policy or Policy(), _odd(found.report))


def _kinds(method: Method, found: CheckedSites) -> tuple[Kind, ...]:
    """Return the kinds of the columns that a model may tell: with privacy none, as one row can change them."""
    return () if privacy_of(method) else found.kinds


def _odd(report: Report) -> list[RunWarning]:
    """Return what was found before a run; what concerns names is logged too: whoever watches can still stop it."""
    for finding in report.warnings:
        if finding.topic == NAMES:
            logger.warning("%s", warning_of(finding))
    return [warning_of(finding) for finding in report.warnings]


def _hold(
    session: Session,
    carrier: EmbeddedEngine | NetworkEngine,
    data: list[SiteData],
    store: ResumeStore | None,
    policy: Policy,
    odd: list[RunWarning],
) -> Run:
    """Hold the session, take what each site has in the end, and put the run together."""
    log = session.record
    try:
        model, conversation = session.hold(carrier)
    except BaseException:
        carrier.close()
        raise
    finally:
        if store is not None:
            store.release()
    try:
        results = carrier.results(session.run, models=log is not None)
        local = {name: result.found for name, result in results.items()}
        raw = bool(session.method.preparing)  # a method looks back on rows as it saw them
        seen_back = [] if raw else session.method.look_back(data, local)
        warnings = [*conversation.warnings, *odd, *seen_back]
        parts = [part_rows(site, session.method, session.seed, policy) for site in data]
        seen = [_prepared(model if raw else model.bare(), train, aside) for train, aside in parts]
        tested = evaluate_run(session.method, model.bare(), conversation.evaluation, seen, local, session.seed)
        if log is not None:
            log.sites(results)
            log.warnings(warnings)
            log.evaluation(tested)
    except BaseException as error:
        session.break_off(error)
        raise
    session.close()
    if store is not None:
        store.forget()
    return Run(
        model=model,
        ledger=conversation.ledger,
        metrics=conversation.metrics,
        sites=data,
        local=local,
        lost=conversation.lost,
        returned=conversation.returned,
        artifacts=conversation.artifacts,
        folder=None if log is None else log.folder,
        warnings=warnings,
        train=[train for train, _ in parts],
        test=[aside for _, aside in parts],
        evaluation=tested,
        again=partial(_update, session.method),
        timing=getattr(carrier, "timing", None),
    )


def _prepared(model: Any, train: SiteData, aside: SiteData) -> tuple[SiteData, SiteData]:
    """Return the rows that were learnt from and tested on as the model saw them, for rivals that see them, too."""
    made = model.preparation
    return (train, aside) if made is None else (made.transform(train), made.transform(aside))


def _engine_class(
    engine: str | type[EmbeddedEngine], n_jobs: int, network: Network | None
) -> type[EmbeddedEngine]:
    """Return what carries the questions; refuse workers that it does not have."""
    made: type[EmbeddedEngine] = ENGINES.find(engine, what="engine") if isinstance(engine, str) else engine
    if n_jobs != 1 and made is not EmbeddedEngine:
        raise InputError(f"n_jobs={n_jobs} given; only the engine 'embedded' has workers")
    check_jobs(n_jobs)
    if network is not None and n_jobs != 1:
        raise InputError(f"n_jobs={n_jobs} and a network given; a site's work can be measured in one process only")
    return made


def _update(
    method: Method, done: Run, added: Sequence[SiteData], removed: Sequence[SiteData], **options: Any
) -> Run:
    from fedgeom.engines.updating import update  # a method of its own, which few runs need

    return update(method, done, run, added, removed, **options)


def _began(store: ResumeStore | None, data: list[SiteData]) -> bool:
    """Begin to keep what it takes to resume, where the folder has no run yet; say whether it was begun."""
    if store is None or (store.folder.parent / "config.json").exists():
        return False
    store.begin(data)
    return True


def _engine(
    made: type[EmbeddedEngine],
    method: Method,
    sites: Sequence[SiteData],
    options: dict[str, Any],
    store: ResumeStore | None,
) -> tuple[EmbeddedEngine, bytes]:
    """Return an engine and the run's number: new ones, or those that were kept."""
    if store is None:
        return made(method, sites, **options), os.urandom(32)
    begun = store.find(sites)
    identities = {name: Identity(secret) for name, secret in begun.identities.items()}
    return made(method, sites, **options, identities=identities, memories=store.memories()), begun.run


def _check_unfinished(record: str | Path | None, config: dict[str, Any]) -> None:
    """Refuse to resume what is finished or has other settings."""
    assert record is not None
    folder = Path(record)
    if read_status(folder).state == "finished":
        ResumeStore(folder).forget()  # it may have died between the last word and the cleaning up
        raise InputError(f"the run in {folder} is finished; its model is {folder / 'model.safetensors'}")
    before = msgspec.json.decode((folder / "config.json").read_bytes())
    check_same(folder, before, msgspec.json.decode(to_json(config)))


def _config(method: Method, sites: Sequence[SiteData], seed: int, engine: str) -> dict[str, Any]:
    return {
        "method": method.name,
        "parameters": method.terms(),
        "seed": seed,
        "engine": engine,
        "sites": {site.name: {"rows": len(site), "columns": site.shape[1]} for site in sites},
    }

"""Run a method over sites in this process and keep what came of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.crypto.keys import Identity
from fedgeom.data.readers import same_columns
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine, Interfere
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Event
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import RunRecord, read_status
from fedgeom.federation.results import Run
from fedgeom.federation.resume import ResumeStore, check_same
from fedgeom.federation.run_warnings import RunWarning
from fedgeom.federation.session import Session
from fedgeom.methods.catalogue import as_method
from fedgeom.methods.words import look_ahead
from fedgeom.registry import Registry
from fedgeom.storage import to_json

logger = logging.getLogger(__name__)

ENGINES = Registry("engine", "fedgeom.engines")
"""The engines that can simulate sites; other packages offer classes with the interface of `EmbeddedEngine`."""
ENGINES.add("embedded", EmbeddedEngine)
ENGINES.offer("flower-loopback", "fedgeom.engines.flower.loopback:FlowerLoopbackEngine", needs="flwr")


def run(
    method: Method | type[Method] | str,
    sites: Sequence[SiteData],
    seed: int = 0,
    *,
    engine: str | type[EmbeddedEngine] = "embedded",
    policy: Policy | None = None,
    record: str | Path | None = None,
    resumable: bool = False,
    resume: bool = False,
    watch: Callable[[Event], None] | None = None,
    interfere: Interfere | None = None,
    chosen: str = "",
) -> Run:
    """Run ``method`` over ``sites``, all in this process, through the same bytes as on a network.

    ``method`` is a method with its settings, or, for the default settings, its class or name (``fedgeom methods``).
    ``engine`` names what carries the questions; "flower-loopback" encodes them as a deployment does. ``policy`` holds
    for every site; ``record`` names a folder to write the run to; ``watch`` is told of each question and answer;
    ``interfere(site, request)`` may return a reason to lose a site. The same seed gives the same model; keys and
    masks are new each time. ``chosen`` says in the record why it is this method, where something chose it.

    ``resumable`` keeps in the record, until the run is finished, what it takes to go on after the process
    died: with the secrets of the sites, so only for sites that are simulated here. ``resume`` goes on with the
    run in ``record``, given the same method, sites and seed; the model is the one it would have been. Where
    there is no run yet, it begins a resumable one.
    """
    method, data = as_method(method), _checked(sites)
    if record is None and (resumable or resume):
        raise InputError("resumable and resume need record, the folder in which the run is kept")
    made = ENGINES.find(engine, what="engine") if isinstance(engine, str) else engine
    config = _config(method, data, seed, made.name) | ({"chosen": chosen} if chosen else {})
    going_on = resume and record is not None and (Path(record) / "config.json").exists()
    store = ResumeStore(record) if record is not None and (resumable or resume) else None
    if going_on:
        _check_unfinished(record, config)
    options: dict[str, Any] = {"policy": policy, "interfere": interfere}
    carrier, number = _engine(made, method, data, options, store if going_on else None)
    carrier.check(number)
    method.check_together(data)
    method.check_limits(data, policy or Policy())
    if store is not None and not going_on and not (store.folder.parent / "config.json").exists():
        store.begin(data)
        carrier, number = _engine(made, method, data, options, store)
    log = None if record is None else RunRecord(record, config, resume=going_on)
    transcript = None if store is None else store.transcript
    names = next((site.columns for site in data if site.columns), ())
    session = Session(method, number, seed, carrier.roster, log, transcript, watch, columns=names)
    ahead = look_ahead(method, data)
    for warning in ahead:
        logger.warning("%s", warning)  # before anything is sent: whoever watches can still stop
    return _hold(session, carrier, data, store, ahead)


def check_sites(method: Method, sites: Sequence[SiteData], *, policy: Policy | None = None) -> None:
    """Look at the sites' rows as a run does before its first question, and raise `InputError` for all that is wrong.

    Whoever sets rows aside for testing checks the whole tables first: a gap in a row set aside would be found only
    when the run is over.
    """
    data = _checked(sites)
    EmbeddedEngine(method, data, policy=policy).check(bytes(32))
    method.check_together(data)  # limits are looked at later, when it is known which rows are learnt from


def _hold(
    session: Session,
    carrier: EmbeddedEngine,
    data: list[SiteData],
    store: ResumeStore | None,
    ahead: Sequence[RunWarning],
) -> Run:
    """Hold the session, take what each site has in the end, and put the run together."""
    log = session.record
    try:
        model, conversation = session.hold(carrier)
    finally:
        if store is not None:
            store.release()
    try:
        results = carrier.results(session.run, models=log is not None)
        local = {name: result.found for name, result in results.items()}
        warnings = [*conversation.warnings, *ahead, *session.method.look_back(data, local)]
        if log is not None:
            log.sites(results)
            log.warnings(warnings)
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
        artifacts=conversation.artifacts,
        folder=None if log is None else log.folder,
        warnings=warnings,
    )


def _checked(sites: Sequence[Any]) -> list[SiteData]:
    """Return the sites as a list, with their columns in one order; say what is wanted when something else was given."""
    data = list(sites)
    if not data:
        raise InputError("no sites were given; wanted a list of SiteData, for example from fedgeom.split(...)")
    strange = next((one for one in data if not isinstance(one, SiteData)), None)
    if strange is not None:
        raise InputError(
            f"a {type(strange).__name__} was given among the sites; wanted fedgeom.SiteData(name, X, y), or a list of "
            "them from fedgeom.split(X, y)"
        )
    return same_columns(data)


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
        "sites": {site.name: {"rows": len(site), "columns": site.X.shape[1]} for site in sites},
    }

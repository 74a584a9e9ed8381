"""Conducting a job: a method's conversation with the sites, over whatever carries it, and its run record.

A run may end for want of sites and be resumed when they are back. So what was answered is kept beside the record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job
from fedgeom.engines.nats.engine import NatsEngine, NatsLink
from fedgeom.errors import TooFewSitesError
from fedgeom.evaluation.evaluation import class_titles, evaluate, without_joint
from fedgeom.federation.coordinator import Engine, Event
from fedgeom.federation.policy import hash_terms
from fedgeom.federation.record import RunRecord
from fedgeom.federation.session import ApprovalTimeout, Session
from fedgeom.storage import locked, make_private_folder

P = TypeVar("P")
Watch = Callable[[Event], None]
Reach = Callable[[CoordinatorFolder, Job, Watch], Engine]
"""Waits for a job's sites and returns the engine that carries questions to them."""


def conduct(folder: CoordinatorFolder, job: Job, reach: Reach, *, engine: str = NatsEngine.name) -> None:
    """Hold a job's conversation; everything that comes of it is in the run's folder."""
    make_private_folder(job.run_folder)
    with locked(job.run_folder / "lock", f"run {job.name!r} is being conducted by another process"):
        _conduct(folder, job, reach, engine)


def _conduct(folder: CoordinatorFolder, job: Job, reach: Reach, carrier: str) -> None:
    method = job.method()
    record = RunRecord(
        job.run_folder,
        {
            "method": method.name,
            "parameters": method.terms(),
            "seed": job.file.seed,
            "engine": carrier,
            "sites": {name: {} for name in job.names},
            "job": job.name,
            "terms": hash_terms(job.terms()).hex(),
            "purpose": job.file.purpose,
        },
        resume=True,
        writers=job.file.writers,
    )
    transcript = job.run_folder / "transcript.bin"
    session = Session(
        method,
        job.run,
        job.file.seed,
        folder.roster(),
        record,
        transcript,
        participants=job.names,
        purpose=job.file.purpose,
        table=job.file.table,
        patience=ApprovalTimeout(job.file.approval_wait),
    )
    try:
        engine = reach(folder, job, record.event)
    except BaseException as error:
        session.break_off(error)
        raise
    model, sites = session.conduct(engine)
    if sites.evaluation is not None:
        found = evaluate(sites.evaluation, class_titles(model.bare(), {}), seed=job.file.seed)
        record.evaluation(without_joint(found, model, sites.evaluation))
    session.close()


def reach_by_nats(link: NatsLink) -> Reach:
    """Return how sites are reached that are connected to a NATS server."""

    def reach(folder: CoordinatorFolder, job: Job, watch: Watch) -> NatsEngine:
        found = gather(
            lambda: link.look(job.names), job.names, wait=job.file.wait, min_sites=job.file.min_sites, watch=watch
        )
        return NatsEngine(link, found, deadline=job.file.deadline, grace=job.file.wait)

    return reach


def gather(
    look: Callable[[], Mapping[str, P]],
    sites: Collection[str],
    *,
    wait: float,
    min_sites: int,
    watch: Watch = lambda event: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Mapping[str, P]:
    """Wait for sites and return where they are: until all are there, or the waiting time is over and enough are.

    ``look`` returns who is connected now.
    """
    wanted = set(sites)
    until = clock() + wait
    found: dict[str, P] = {}
    while True:
        for name, place in look().items():
            if name in wanted and name not in found:
                found[name] = place
                watch(Event(0, "join", name, "joined"))
        if set(found) == wanted or clock() >= until:
            break
        sleep(0.5)
    for name in sorted(wanted - set(found)):
        watch(Event(0, "join", name, "lost", f"did not come within {wait:g} s"))
    if len(found) < min_sites:
        raise TooFewSitesError(
            f"{len(found)} of the {min_sites} sites needed came within {wait:g} s; missing: "
            f"{', '.join(sorted(wanted - set(found)))}"
        )
    return found

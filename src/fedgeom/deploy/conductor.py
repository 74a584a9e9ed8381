"""Conducting a job: a method's conversation with the sites, over Flower, and its run record.

A run may end for want of sites and be resumed when they are back. So what was answered is kept beside the record.
"""

from __future__ import annotations

from collections.abc import Callable

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job
from fedgeom.engines.flower.engine import FlowerEngine, FlowerGrid
from fedgeom.engines.flower.nodes import Introductions, connected, gather, names_by_key
from fedgeom.evaluation.evaluation import class_titles, evaluate, without_joint
from fedgeom.federation.coordinator import Event
from fedgeom.federation.policy import hash_terms
from fedgeom.federation.record import RunRecord
from fedgeom.federation.session import ApprovalTimeout, Session
from fedgeom.storage import locked, make_private_folder


def conduct(folder: CoordinatorFolder, job: Job, grid: FlowerGrid) -> None:
    """Hold a job's conversation; everything that comes of it is in the run's folder."""
    make_private_folder(job.run_folder)
    with locked(job.run_folder / "lock", f"run {job.name!r} is being conducted by another process"):
        _conduct(folder, job, grid)


def _conduct(folder: CoordinatorFolder, job: Job, grid: FlowerGrid) -> None:
    method = job.method()
    record = RunRecord(
        job.run_folder,
        {
            "method": method.name,
            "parameters": method.terms(),
            "seed": job.file.seed,
            "engine": "flower",
            "sites": {name: {} for name in job.names},
            "job": job.name,
            "terms": hash_terms(job.terms()).hex(),
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
        patience=ApprovalTimeout(job.file.approval_wait),
    )
    try:
        engine = reach_sites(folder, job, grid, record.event)
    except BaseException as error:
        session.break_off(error)
        raise
    model, sites = session.conduct(engine)
    if sites.evaluation is not None:
        found = evaluate(sites.evaluation, class_titles(model.bare(), {}), seed=job.file.seed)
        record.evaluation(without_joint(found, model, sites.evaluation))
    session.close()


def reach_sites(
    folder: CoordinatorFolder, job: Job, grid: FlowerGrid, watch: Callable[[Event], None]
) -> FlowerEngine:
    """Wait for the job's sites and return the engine that carries questions to them."""
    insecure = folder.config().insecure
    names_of = Introductions(grid, folder.roster()) if insecure else names_by_key(folder.node_keys())
    nodes = gather(grid, names_of, job.names, wait=job.file.wait, min_sites=job.file.min_sites, watch=watch)
    return FlowerEngine(
        grid,
        nodes,
        deadline=job.file.deadline,
        grace=job.file.wait,
        look=lambda: connected(grid, names_of),
    )

"""Conducting a job: a method's conversation with the sites, over Flower, and its run record.

A run may end for want of sites and be resumed when they are back. So what was answered is kept, and who was lost is
told apart from who gave an answer that could not be used.
"""

from __future__ import annotations

from collections.abc import Callable

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job
from fedgeom.engines.flower.commands import poll_seconds
from fedgeom.engines.flower.engine import FlowerEngine, Grid
from fedgeom.engines.flower.nodes import Introductions, connected, gather, names_by_key
from fedgeom.engines.run import converse
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.conversation import Event, Sites
from fedgeom.federation.record import RunRecord
from fedgeom.federation.transcript import Transcript
from fedgeom.storage import locked, make_private_folder


def conduct(folder: CoordinatorFolder, job: Job, grid: Grid) -> None:
    """Hold a job's conversation; everything that comes of it is in the run's folder."""
    make_private_folder(job.run_folder)
    with locked(job.run_folder / "lock", f"run {job.name!r} is being conducted by another process"):
        _conduct(folder, job, grid)


def _conduct(folder: CoordinatorFolder, job: Job, grid: Grid) -> None:
    method = job.method()
    record = RunRecord(
        job.run_folder,
        {
            "method": method.name,
            "parameters": method.parameters(),
            "seed": job.file.seed,
            "engine": "flower",
            "sites": {name: {} for name in job.names},
            "job": job.name,
        },
        resume=True,
    )
    try:
        engine = reach_sites(folder, job, grid, record.event)
        transcript = Transcript(engine, job.run_folder / "transcript.bin")
    except Exception as error:
        record.finish("failed", str(error))
        raise
    sites = Sites(transcript, run=job.run, method=method.name, seed=job.file.seed, roster=folder.roster())
    left_out = LeftOut(sites, record.event)
    sites.listeners.append(left_out)
    try:
        converse(method, sites, record)
    except TooFewSitesError:
        transcript.forgive(left_out.names)  # whoever resumes the run does so because the lost sites are back
        raise
    record.finish()


def reach_sites(folder: CoordinatorFolder, job: Job, grid: Grid, watch: Callable[[Event], None]) -> FlowerEngine:
    """Wait for the job's sites and return the engine that carries questions to them."""
    insecure = folder.config().insecure
    names_of = Introductions(grid, folder.roster()) if insecure else names_by_key(folder.node_keys())
    nodes = gather(grid, names_of, job.names, wait=job.file.wait, min_sites=job.file.least, watch=watch)
    return FlowerEngine(
        grid,
        nodes,
        deadline=job.file.deadline,
        grace=job.file.wait,
        look=lambda: connected(grid, names_of),
        poll=poll_seconds(len(nodes)),
    )


class LeftOut:
    """Listens for sites which answered, but whose answer a method could not use, and reports them as lost."""

    def __init__(self, sites: Sites, tell: Callable[[Event], None]):
        self._sites, self._tell = sites, tell
        self._gone: set[str] = set()
        self._told: set[str] = set()

    @property
    def names(self) -> set[str]:
        """The sites that were left out; those that gave no answer, or refused, are not among them."""
        return set(self._sites.lost) - self._gone

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        if event.state == "lost" and event.site not in self._told:
            self._gone.add(event.site)
        for name in self.names - self._told:
            self._told.add(name)
            self._tell(Event(event.step, event.kind, name, "lost", self._sites.lost[name]))

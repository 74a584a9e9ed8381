"""Run a method over sites in this process and keep what came of it."""

from __future__ import annotations

import hashlib
import logging
import operator
import os
import shutil
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedgeom.crypto.keys import Identity
from fedgeom.data.kinds import Kind
from fedgeom.data.rows import shared_gap_check
from fedgeom.data.sites import SiteData, as_sites
from fedgeom.data.validation import Report
from fedgeom.engines.check import NAMES, CheckedSites, check_aligned, fit_to_rows
from fedgeom.engines.embedded import EmbeddedEngine, Interfere, said_once
from fedgeom.engines.network import NetworkEngine, SimulatedNetwork
from fedgeom.engines.workers import check_jobs, one_thread
from fedgeom.errors import InputError, ProtocolError
from fedgeom.evaluation.evaluation import evaluate_run
from fedgeom.federation.coordinator import Coordinator, Event
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.policy import AUTOCAST_VARIABLE, DEVICE_VARIABLE, Policy, StrictPolicy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.record import RunRecord, read_status
from fedgeom.federation.results import Run, RunWarning, warning_of
from fedgeom.federation.runner import where_raised
from fedgeom.federation.session import Session
from fedgeom.methods.catalogue import as_method
from fedgeom.methods.describe.method import Describe
from fedgeom.methods.label_names import look_back
from fedgeom.methods.ridge.core import starts
from fedgeom.methods.ridge.method import Ridge
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.statistics import Statistics, gram_parts, rows_of
from fedgeom.methods.ridge.update import CHANGE, RidgeUpdate
from fedgeom.registry import Registry
from fedgeom.storage import Lock, make_private_folder, to_json, write_file


def change_of(added: Sequence[SiteData], removed: Sequence[SiteData]) -> list[SiteData]:
    """Return each site's changed rows, with 1 for those that are added and -1 for those that are taken out."""
    parts: dict[str, list[tuple[SiteData, int]]] = {}
    for sites, sign in ((added, 1), (removed, -1)):
        for site in sites:
            parts.setdefault(site.name, []).append((site, sign))
    found = []
    for name, several in parts.items():
        tables = [rows_of(site) for site, _ in several]
        if len({table.shape[1] for table in tables}) > 1 or len({site.columns for site, _ in several}) > 1:
            raise InputError(f"site {name!r}: rows to add and to take out have different columns; wanted the same")
        signs = np.concatenate([np.full(len(site), sign) for site, sign in several])
        labels = np.concatenate([site.y.astype(str) for site, _ in several])
        columns = several[0][0].columns
        found.append(SiteData(name, np.vstack(tables), labels, {CHANGE: signs}, columns))
    return found


def update_method(method: Method, run: Run) -> RidgeUpdate:
    """Return the method that updates a run; refuse runs that cannot be updated."""
    if not isinstance(method, Ridge | RidgeUpdate):
        raise InputError(f"a run of {method.name!r} cannot be updated; wanted Ridge(updatable=True), or run anew")
    model = run.model
    shared = {one.name: getattr(method, one.name) for one in fields(RidgeSettings)}
    shared |= {"classes": tuple(model.names), "personal": False, "prepare": None}
    features = len(model.weights) - 1
    classes = len(model.names)
    at = starts(features, classes)
    lengths = [int(at[last] - at[first]) for first, last in gram_parts(method, features, classes)]
    before = Statistics.of(run.artifacts, lengths)
    return RidgeUpdate(**shared, since=before.stands_for).on(before)


def update(
    method: Method,
    run: Run,
    again: Any,
    added: Sequence[SiteData] = (),
    removed: Sequence[SiteData] = (),
    **options: Any,
) -> Run:
    """Run an update over the sites that have changes; ``again`` is `fedgeom.run`."""
    if not added and not removed:
        raise InputError(
            "no rows were given; wanted some to add or to take out: run.update(added=[…], removed=[…])"
        )
    updating = update_method(method, run)
    changed = [prepared(run.model, some) for some in (added, removed)]
    sites = change_of(*changed)
    if len(sites) < updating.min_sites:
        raise InputError(
            f"{len(sites)} site given with changes, {sites[0].name!r}: its sums would be everybody's to see. Wanted "
            f"{updating.min_sites} or more at once, and as many as the sites' policies ask for; keep the change until "
            "others have some"
        )
    found: Run = again(updating, sites, **options)
    return found


def prepared(model: Model, sites: Sequence[SiteData]) -> Sequence[SiteData]:
    """Return changed rows as the first run would have seen them: each site has what prepares them in its model."""
    made = model.preparation
    return sites if made is None else [made.transform(site) for site in sites]


FOLDER = "resume"
ROWS_AT_ONCE = 65536
"""How many rows, or numbers of a sparse table, are hashed at once: copies stay small."""


class RunSeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must be the same when a run goes on: its number, the sites' secret signing keys, their tables."""

    run: bytes
    identities: dict[str, bytes]
    """The sites' secret signing keys."""
    rows: dict[str, bytes]
    """A hash of each site's table."""


class Memories(UserDict[str, bytes]):
    """The sites' memories, each written to disk before the answer that goes with it is used."""

    def __init__(self, folder: Path):
        super().__init__()
        self._folder = folder
        for file in sorted(folder.glob("*.memory")):
            name, memory = msgspec.msgpack.decode(file.read_bytes(), type=tuple[str, bytes])
            self.data[name] = memory

    def __setitem__(self, name: str, memory: bytes) -> None:
        if self.data.get(name) != memory:
            file = self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.memory"
            write_file(file, msgspec.msgpack.encode((name, memory)), private=True)
        self.data[name] = memory


class ResumeStore:
    """The folder, and the lock on it."""

    def __init__(self, record: str | Path):
        self.folder = Path(record) / FOLDER
        self._lock = Lock(self.folder / "lock")

    @property
    def transcript(self) -> Path:
        """Where the coordinator's transcript lies."""
        return self.folder / "transcript.bin"

    def begin(self, sites: Sequence[SiteData]) -> RunSeed:
        """Write down who the sites are, for a new run."""
        make_private_folder(self.folder)
        self._hold()
        begun = RunSeed(
            os.urandom(32),
            {site.name: Identity.generate().secret for site in sites},
            {site.name: hash_rows(site) for site in sites},
        )
        write_file(self.folder / "begun", msgspec.msgpack.encode(begun), private=True)
        return begun

    def find(self, sites: Sequence[SiteData]) -> RunSeed:
        """Read who the sites were when the run began, and check that they have the same rows."""
        file = self.folder / "begun"
        if not file.is_file():
            raise InputError(
                f"{self.folder.parent} does not hold what it takes to resume the run; that is kept when a run begins "
                "with resumable=True"
            )
        self._hold()
        try:
            begun = msgspec.msgpack.decode(file.read_bytes(), type=RunSeed)
        except msgspec.DecodeError as error:
            raise InputError(f"{file} is damaged: {error}; the run has to start anew") from error
        here = {site.name: hash_rows(site) for site in sites}
        odd = sorted(name for name in {*here, *begun.rows} if here.get(name) != begun.rows.get(name))
        if odd:
            raise InputError(
                f"the run in {self.folder.parent} began with other rows at {', '.join(odd)}; give it the same sites"
            )
        return begun

    def memories(self) -> Memories:
        """Return the sites' memories."""
        return Memories(self.folder)

    def _hold(self) -> None:
        self._lock.acquire(f"the run in {self.folder.parent} is going on in another process")

    def release(self) -> None:
        """Let another process go on with the run."""
        self._lock.release()

    def forget(self) -> None:
        """Delete everything: the run is finished, and its secrets serve nothing more."""
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def hash_rows(site: SiteData) -> bytes:
    """Hash a site's table, as it came: nothing is made dense."""
    digest = hashlib.sha256(repr((site.shape, site.y.astype(str).tolist())).encode())
    if site.categories:
        digest.update(repr(sorted(site.categories.items())).encode())
    for name in sorted(site.extra):
        values = site.extra[name]
        digest.update(
            name.encode()
            + np.ascontiguousarray(values if values.dtype.kind in "biuf" else values.astype(str)).tobytes()
        )
    sparse = hasattr(site.table, "indptr")
    parts = (site.table.indptr, site.table.indices, site.table.data) if sparse else (site.table,)
    for part in parts:
        for start in range(0, len(part), ROWS_AT_ONCE):
            piece = part[start : start + ROWS_AT_ONCE]
            digest.update(piece.astype("<f8" if part is parts[-1] else "<i8").tobytes())
    return digest.digest()


def check_same(record: str | Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other settings, naming one that differs."""
    for name in ("method", "seed", "engine", "sites", "start"):
        if before.get(name) != now.get(name):
            raise InputError(f"the run in {record} has {name} = {before.get(name)!r}; {now.get(name)!r} was given")
    old = before.get("parameters", {})
    new = now.get("parameters", {})
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            raise InputError(f"the run in {record} has {name} = {old.get(name)!r}; {new.get(name)!r} was given")


logger = logging.getLogger(__name__)

ENGINES = Registry("engine", "fedgeom.engines")
"""The engines that can simulate sites; other packages offer classes with the interface of `EmbeddedEngine`."""
ENGINES.add("embedded", EmbeddedEngine)


def run(
    method: Method | type[Method] | str,
    sites: Sequence[SiteData],
    seed: int = 0,
    *,
    engine: str | type[EmbeddedEngine] = "embedded",
    holdout: float | Holdout | None = None,
    rivals: bool = True,
    policy: Policy | None = None,
    record: str | Path | None = None,
    resumable: bool = False,
    resume: bool = False,
    watch: Callable[[Event], None] | None = None,
    interfere: Interfere | None = None,
    n_jobs: int = 1,
    network: SimulatedNetwork | None = None,
    writers: Sequence[str] = (),
    chosen: str = "",
    checked: CheckedSites | None = None,
    start: Model | Run | None = None,
    device: str | None = None,
    autocast: str | None = None,
) -> Run:
    """Run ``method`` over ``sites``, all in this process, through the same bytes as on a network.

    The same seed gives the same model, always; keys and masks are new each time.

    Parameters
    ----------
    method: a method, its class or its name
        A class or a name (``fedgeom methods`` lists them) stands for the default settings.
    sites: a list of `SiteData`
        The sites, with different names.
    seed: a whole number; 0 if not given
        Draws everything that learning leaves to chance.
    engine: text; "embedded" if not given
        What carries the questions: "embedded", or an engine that another package offers.
    holdout: a share, a `Holdout` or None; None if not given
        The share of its rows that each site keeps aside, class by class. The model is tested there:
        ``run.evaluation`` has the figures, beside simple baselines.
    rivals: true or false; true if not given
        Whether the baselines are trained: models of each site alone, and of all rows in one place. False saves time.
    policy: a `Policy` or None; None if not given
        The rules of every site. None: those of `Policy()`.
    record: a path or None; None if not given
        The folder to write the run to.
    resumable: true or false; false if not given
        Keep in ``record``, until the run is finished, what it takes to go on after the process died. This includes
        the sites' secrets, so it is only for sites that are simulated here.
    resume: true or false; false if not given
        Go on with the run in ``record``, given the same method, sites and seed. The model is the one it would have
        been. Without a run there, a resumable one begins.
    watch: a function of an event, or None; None if not given
        Called with each question and answer.
    interfere: a function of a site's name and a request, or None; None if not given
        Returns a reason to lose the site, or None.
    n_jobs: a whole number of at least 1; 1 if not given
        How many processes answer for the sites, side by side.
    network: a `SimulatedNetwork` or None; None if not given
        With one, ``run.timing`` tells how long the run would take on such a network.
    writers: a list of names; none if not given
        What also records the run: "tensorboard", "mlflow".
    chosen: text; empty if not given
        A note for the record on how the method was chosen.
    checked: the result of `check_aligned` or None; None if not given
        With it, made with the same arguments, tables are not checked again.
    start: a model, a finished run or None; None if not given
        For methods that train in rounds: the model that training begins with, of the same learner and classes. What
        sites and coordinator keep beside the model (momentum, variates, personal parts) begins anew. Columns are scaled
        by this run's rows.
    device: "cpu", "cuda", "mps" or None; None if not given
        What torch computes on at the sites, which are all here. None: what FEDGEOM_DEVICE says, or "cpu".
    autocast: "bfloat16", "float16" or None; None if not given
        The precision of torch's autocast in training. None: what FEDGEOM_AUTOCAST says, or none.

    Returns
    -------
    Run
        The model, the ledger of all messages, metrics, and what each site keeps to itself.
    """
    method = as_method(method)
    sites = as_sites(sites, *(() if _is_whole(seed) else (seed,)))
    seed = whole_seed(seed)
    if len(sites) == 1:
        raise InputError(
            f"one site was given, {sites[0].name!r}; wanted two or more: what leaves a site is a sum over several. "
            "For a trial split its rows, fedgeom.split(X, y, n_sites=3)"
        )
    if holdout is not None:
        method = replace(method, holdout=Holdout.read(holdout, "holdout"))
    if not rivals and method.holdout is not None:
        method = replace(method, holdout=replace(Holdout.read(method.holdout, "holdout"), rivals=False))
    begun = start.model if isinstance(start, Run) else start
    if begun is not None and not (isinstance(begun, Model) and hasattr(method, "n_rounds")):
        raise InputError(
            f"start={begun!r} given with {method.name!r}; wanted a model, such as run.model, and "
            "a method that trains in rounds"
        )
    if record is None and (resumable or resume or writers):
        raise InputError("resumable and resume need record, the run's folder, and so do writers")
    made = _engine_class(engine, n_jobs, network)
    with computing_on(device, autocast), shared_gap_check(), one_thread(), said_once():
        if checked is None:
            method, why = fit_to_rows(method, sites, policy, seed)
            chosen = "; ".join(filter(None, (chosen, why)))
        found = check_aligned(method, sites, policy, seed=seed) if checked is None else checked
        found.report.raise_errors(
            but=("policy",)
        )  # a policy's noes the sites themselves say, and the record has them
        data = found.sites
        config = _config(method, data, seed, made.name) | ({"chosen": chosen} if chosen else {})
        if begun is not None:
            config["start"] = hashlib.sha256(begun.to_bytes()).hexdigest()
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
            method,
            number,
            seed,
            carrier.roster,
            log,
            transcript,
            watch,
            columns=found.columns,
            kinds=kinds,
            labels=found.labels,
            start=begun,
        )
        carried = NetworkEngine(carrier, network) if network else carrier
        odd = _odd(found.report)
        try:
            model, conversation = session.conduct(carried)
        except ProtocolError as error:
            carried.close()
            cause = _failure(carrier)
            if cause is None:
                raise
            raise _as_raised(error, method, carrier, cause) from cause
        except BaseException:
            carried.close()
            raise
        finally:
            if store is not None:
                store.release()
        return _finish(session, carried, data, store, policy or Policy(), odd, model, conversation)


def describe(
    sites: Sequence[SiteData],
    *,
    by_class: bool = True,
    quantiles: Sequence[float] = (0.25, 0.5, 0.75),
    categories: Sequence[str] | None = None,
    per_site: bool = False,
    policy: Policy | None = None,
    record: str | Path | None = None,
) -> Any:
    """Return a frame that describes all sites' rows together, by secure sums alone: the federated "table one".

    A line for each column, or word of a column of text, and class: rows, gaps, mean, deviation, quantiles, share.
    Tables are taken as they are, with gaps and text. ``frame.attrs`` has the rows of each class, and the floors.

    Parameters
    ----------
    sites: a list of `SiteData`
        The sites, with different names. Columns of text stay with ``SiteData.from_frame(…, text=True)``.
    by_class: true or false; true if not given
        Describe each class by itself, too.
    quantiles: a list of numbers from 0 to 1; quartiles if not given
        Which quantiles are told.
    categories: a list of texts or None; None if not given
        Columns of numbers that are categories, such as codes.
    per_site: true or false; false if not given
        Have each site tell its gaps, column by column; strict policies refuse that.
    policy: a `Policy` or None; None if not given
        The rules of every site. None: those that ``fedgeom site init`` writes, under which no number rests on fewer
        than 10 rows or 3 sites. ``Policy()`` has no floors.
    record: a path or None; None if not given
        The folder to write the run to.
    """
    settings: dict[str, Any] = {"by_class": by_class, "quantiles": tuple(quantiles), "per_site": per_site}
    method = Describe(categories=None if categories is None else tuple(categories), **settings)
    rules = StrictPolicy() if policy is None else policy
    method.check_categories(sites)
    with shared_gap_check():
        checked = check_aligned(method, sites, rules)
    checked.report.raise_errors()
    return run(method, sites, policy=rules, record=record, checked=checked).model.frame()


def _is_whole(seed: Any) -> bool:
    return hasattr(seed, "__index__") and not isinstance(seed, bool)


def whole_seed(seed: Any) -> int:
    """Return a seed as a whole number, or refuse what is none."""
    if _is_whole(seed):
        return operator.index(seed)
    raise InputError(
        f"seed={seed!r} given; wanted a whole number, such as 0: the same seed gives the same model. For other draws "
        "give other numbers"
    )


@contextmanager
def computing_on(device: str | None, autocast: str | None) -> Iterator[None]:
    """Let torch compute on a device, and in a precision, until the run is over."""
    wanted = {DEVICE_VARIABLE: device, AUTOCAST_VARIABLE: autocast}
    given = {name: value for name, value in wanted.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        if given:
            from fedgeom.methods.iterative.learners.torch_module import check_computing  # slow to import

            check_computing()
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _failure(carrier: EmbeddedEngine) -> Exception | None:
    """Return what nobody expected at the first site that left for it; None where there is nothing of the kind."""
    runners = getattr(carrier, "runners", {}).values()
    found = (one.failure for one in runners if one.failure is not None)
    return next((one for one in found if not isinstance(one, MemoryError)), None)


def _as_raised(error: ProtocolError, method: Method, carrier: EmbeddedEngine, cause: Exception) -> ProtocolError:
    """Return the error of a run whose sites left over an exception that nobody expected: it names the line."""
    what = f"{type(cause).__name__}: {cause}"
    count = sum(one.failure is not None for one in carrier.runners.values())
    return type(error)(
        f"the code of {method.name!r} failed at {count} of {len(carrier.runners)} sites: {what} "
        f"({where_raised(cause)}); mend it there"
    )


def _kinds(method: Method, found: CheckedSites) -> tuple[Kind, ...]:
    """Return the kinds of the columns that a model may tell: with privacy none, as one row can change them."""
    return () if privacy_of(method) else found.kinds


def _odd(report: Report) -> list[RunWarning]:
    """Return the warnings from before the run; those on label names are logged at once: a run can be stopped."""
    for finding in report.warnings:
        if finding.topic == NAMES:
            logger.warning("%s", warning_of(finding))
    return [warning_of(finding) for finding in report.warnings]


def _finish(
    session: Session,
    carrier: EmbeddedEngine | NetworkEngine,
    data: list[SiteData],
    store: ResumeStore | None,
    policy: Policy,
    odd: list[RunWarning],
    model: Any,
    conversation: Coordinator,
) -> Run:
    """Take what each site has in the end, and put the run together."""
    log = session.record
    try:
        results = carrier.results(session.run, models=log is not None)
        local = {name: result.found for name, result in results.items()}
        method = session.method
        raw = bool(method.preparing or (method.planned_steps and model.preparation is not None))
        warnings = [*conversation.warnings, *odd, *look_back(method, local)]
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
        rounds=conversation.history,
        timing=getattr(carrier, "timing", None),
    )


def _prepared(model: Any, train: SiteData, aside: SiteData) -> tuple[SiteData, SiteData]:
    """Return the rows that were learnt from and tested on as the model saw them, for rivals that see them, too."""
    made = model.preparation
    return (train, aside) if made is None else (made.transform(train), made.transform(aside))


def _engine_class(
    engine: str | type[EmbeddedEngine], n_jobs: int, network: SimulatedNetwork | None
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

"""Run several methods and settings over the same rows and splits, and keep the results.

A comparison is a sweep in which each row has one setting: nothing is chosen, and each is tested at once.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.engines.run import run
from fedgeom.engines.workers import check_jobs, use_threads
from fedgeom.errors import InputError
from fedgeom.evaluation.benchmark import HEAD, JUDGED, MethodResult, Sweep, best
from fedgeom.evaluation.evaluation import COLUMNS, TITLES, evaluate_elsewhere
from fedgeom.federation.holdout import LEAST, Holdout, part_rows
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import file_name
from fedgeom.storage import make_private_folder, to_json, write_json, write_text

OUTCOMES = "outcomes"
"""In a sweep's folder: what came of each run."""
SAME = ("row", "stage", "seed", "method", "terms", "tables")
"""In these an outcome that was kept agrees with one that is wanted: otherwise it is computed anew."""


def sweep(
    rows: Mapping[str, Sequence[Method]],
    sites: Sequence[SiteData],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    holdout: float | Holdout = 0.25,
    by: str = JUDGED,
    policy: Policy | None = None,
    settings: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    failed: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    watch: Callable[[MethodResult], None] | None = None,
    n_jobs: int = 1,
    command: str = "",
) -> Sweep:
    """Return how each row does with the settings that are chosen for it, seed by seed.

    With every seed each site keeps test rows aside; which ones follows from the seed and the sites' names, so all rows
    are tested on the same. All of a row's methods are run over the other rows, of which a share is set aside once more,
    and the best there is run over all of them and tested. Rows with one method are tested at once: if all have one,
    this is a comparison. Every run goes through the whole protocol; one that fails says why and stops no other.

    Parameters
    ----------
    rows: methods by the row's name
        Usually one method with several settings.
    sites: tables
    seeds: whole numbers; 0, 1 and 2 if not given
        Each splits the rows anew.
    holdout: a share or a `Holdout`; 0.25 if not given
        The rows kept aside.
    by: accuracy, balanced_accuracy, macro_f1 or auc; balanced_accuracy if not given
        The figure that settings are chosen by.
    policy: a `Policy`; the default one if not given
    settings: settings by the row's name
        In which settings each row's methods differ, for the tables.
    failed: reasons by the row's name
        Rows that cannot be run: they are listed as failed.
    folder: a path
        Where every outcome is kept when it is there: called again, only the rest is run.
    watch: a function
        It is called with each outcome.
    n_jobs: a whole number of at least 1; 1 if not given
        How many runs go on side by side, each in a process of its own.
    command: text; empty if not given
        What one types to have the same again: it stands below the tables.
    """
    check_jobs(n_jobs)
    _check(rows, by, failed or {})
    aside = Holdout.read(holdout, "holdout")
    wanted = [int(getattr(one, "min_rows", 0)) for methods in rows.values() for one in methods]
    most = max(wanted, default=0)
    same = replace(aside, keep=most) if most > max(aside.keep, LEAST) else aside  # or some have fewer test rows
    runs = _Runs(same, policy, _store(folder))
    whole = hash_tables(sites)
    places = [(seed, row) for seed in seeds for row in rows]
    choices = [place for place in places if len(rows[place[1]]) > 1]
    tries: list[Callable[[], MethodResult]] = []
    for seed, row in choices:
        tables = runs.learnt_from(rows[row][0], sites, seed)
        blank = MethodResult(row=row, seed=seed, stage="choosing", tables=hash_tables(tables))
        tries += [partial(runs, blank, at, method, tables) for at, method in enumerate(rows[row])]
    tried: dict[tuple[int, str], list[MethodResult]] = {place: [] for place in choices}
    for one in _side_by_side(tries, n_jobs, watch):
        tried[one.seed, one.row].append(one)
    taken = {place: best(found, by) for place, found in tried.items()}
    tests = [
        partial(runs, MethodResult(row=row, seed=seed, chosen=True, tables=whole), at, rows[row][at], sites)
        for seed, row in places
        for at in [taken.get((seed, row)) or 0]
    ]
    entries: list[MethodResult] = []
    for one in _side_by_side(tests, n_jobs, watch):
        found = tried.get((one.seed, one.row), [])
        chosen = taken.get((one.seed, one.row))
        entries += [msgspec.structs.replace(other, chosen=other.setting == chosen) for other in found]
        entries.append(one)
    entries += [MethodResult(row=row, seed=seeds[0], failure=why) for row, why in (failed or {}).items()]
    said = {row: list((settings or {}).get(row, [{} for _ in methods])) for row, methods in rows.items()}
    return Sweep(share=runs.holdout.share, by=by, settings=said, entries=entries, command=command)


_calls: Sequence[Callable[[], MethodResult]] = ()
"""What forked processes are to do: they have it without a copy, own classes and tables included."""


def _side_by_side(
    calls: Sequence[Callable[[], MethodResult]], n_jobs: int, watch: Callable[[MethodResult], None] | None
) -> Iterator[MethodResult]:
    """Yield what comes of each call, in their order, with so many processes."""
    global _calls
    if n_jobs == 1 or len(calls) < 2:
        for call in calls:
            one = call()
            if watch is not None:
                watch(one)
            yield one
        return
    _calls = calls
    fork = multiprocessing.get_context("fork")
    workers = ProcessPoolExecutor(min(n_jobs, len(calls)), fork, initializer=use_threads, initargs=(1,))
    try:
        for one in workers.map(_call, range(len(calls))):
            if watch is not None:
                watch(one)
            yield one
    finally:
        workers.shutdown(cancel_futures=True)
        _calls = ()


def _call(at: int) -> MethodResult:
    return _calls[at]()


def combinations(
    grid: Mapping[str, Sequence[Any]], written: Sequence[Mapping[str, Any]] = ({},)
) -> list[dict[str, Any]]:
    """Return every combination of a grid's values with each of the settings that are written out."""
    return [
        dict(zip(grid, values, strict=True)) | dict(one)
        for one in written
        for values in itertools.product(*grid.values())
    ]


def drawn(where: str, name: str, settings: list[dict[str, Any]], tries: int | None) -> list[dict[str, Any]]:
    """Return as many settings as are to be tried, in their order; which ones is always the same draw."""
    if tries is None or tries == len(settings):
        return settings
    if tries > len(settings):
        raise InputError(
            f"{where} tries = {tries}, but row {name!r} has only {len(settings)} settings; give it more values, or "
            "take fewer tries"
        )
    chosen = np.random.default_rng(0).choice(len(settings), tries, replace=False)
    return [settings[at] for at in sorted(chosen.tolist())]


EFFORT = ("n_rounds", "epochs", "steps")
"""The settings that say how much sites train."""


def check_effort(where: str, rows: Mapping[str, Sequence[Method]]) -> None:
    """Refuse rows that try different numbers of settings or train for different times."""
    tries = {name: len(methods) for name, methods in rows.items()}
    if len(set(tries.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in tries.items())
        raise InputError(
            f"{where}: rows try different numbers of settings ({said}), which favours those with more; say "
            f'tries = {min(tries.values())}, give all as many, or say effort = "any"'
        )
    efforts = {
        name: {tuple(getattr(one, key) for key in EFFORT) for one in methods}
        for name, methods in rows.items()
        if all(hasattr(methods[0], key) for key in EFFORT)
    }
    names = list(efforts)
    for name in names[1:]:
        if efforts[name] != efforts[names[0]]:
            mine, others = (sorted(map(str, efforts[one])) for one in (name, names[0]))
            raise InputError(
                f"{where}: {name} trains with (rounds, epochs, steps) of {', '.join(mine)} and {names[0]} of "
                f'{", ".join(others)}; say them once for all, or say effort = "any"'
            )


SAME_NETWORK = ("local", "pooled")
"""What is trained beside networks; tables call it as they call the same with logistic regression."""


def with_rivals(
    rows: Mapping[str, Sequence[Method]], settings: Mapping[str, Sequence[dict[str, Any]]]
) -> tuple[dict[str, list[Method]], dict[str, list[dict[str, Any]]]]:
    """Return the rows with two more for each network: trained at each site alone, and on all rows in one place.

    They try what the first row with that network tries, as far as these settings are theirs. Logistic regression has
    such rivals in every test.
    """
    made = {row: list(methods) for row, methods in rows.items()}
    said = {row: [dict(one) for one in settings.get(row, [{} for _ in rows[row]])] for row in rows}
    seen: dict[str, str] = {}
    for row, methods in rows.items():
        first: Any = methods[0] if methods else None
        title = _network_of(first)
        key = repr([getattr(first, name, None) for name in ("network", "shape", "learner")])
        if not title or key in seen or getattr(first, "sends", None) == ():
            continue
        seen[key] = title if title not in seen.values() else f"{title} of {row}"
        for kind in SAME_NETWORK:
            found = [_rival(one, kind) for one in methods]
            fresh = [at for at, one in enumerate(found) if one.terms() not in [o.terms() for o in found[:at]]]
            title_of_row = f"{TITLES[kind]}, {seen[key]}"
            made[title_of_row] = [found[at] for at in fresh]
            own = {one.name for one in fields(found[0])}
            said[title_of_row] = [{k: v for k, v in said[row][at].items() if k in own} for at in fresh]
    return made, said


def _network_of(method: Any) -> str:
    """Return what a method's network or module is called; "" where it has none."""
    learner = getattr(method, "learner", "logistic")
    network = getattr(method, "network", None)
    if network is not None:
        return str(getattr(network, "name", network))
    return "" if learner == "logistic" or not hasattr(method, "learner_options") else str(learner)


def _rival(method: Any, kind: str) -> Method:
    from fedgeom.methods.iterative.algorithms.averaging import LocalOnly, PooledRows, alone  # slow to import

    return alone(method, LocalOnly if kind == "local" else PooledRows)


def write_sweep(folder: str | Path, name: str, swept: Sweep) -> list[Path]:
    """Write NAME.json, which has everything, and NAME.csv with every figure in a line; return both."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(swept.lines())
    return [
        write_json(Path(folder) / f"{name}.json", swept, private=True),
        write_text(Path(folder) / f"{name}.csv", text.getvalue(), private=True),
    ]


def _check(rows: Mapping[str, Sequence[Method]], by: str, failed: Mapping[str, str]) -> None:
    if by not in COLUMNS:
        raise InputError(f"by={by!r} given; wanted one of {', '.join(COLUMNS)}")
    empty = [row for row, methods in rows.items() if not methods]
    if empty or not (rows or failed):
        raise InputError(f"{'row ' + repr(empty[0]) if empty else 'the sweep'} has nothing to try")


def _store(folder: str | Path | None) -> Path | None:
    return None if folder is None else make_private_folder(Path(folder) / OUTCOMES)


@dataclass(frozen=True)
class _Runs:
    """Runs methods on the same terms, but for those whose outcome on these terms and tables is in the store."""

    holdout: Holdout
    policy: Policy | None
    store: Path | None

    def __call__(
        self, blank: MethodResult, setting: int, method: Method, sites: Sequence[SiteData]
    ) -> MethodResult:
        """Return what comes of a method that is the given setting of a row."""
        tested = replace(method, holdout=self.holdout)
        wanted = msgspec.structs.replace(
            blank,
            setting=setting,
            method=method.name,
            terms=_plain(tested.terms()),
            alone=getattr(method, "sends", None) == (),  # an algorithm whose sites send nothing
        )
        file = None if self.store is None else self.store / f"{file_name(wanted.title)}-{wanted.seed}.json"
        found = _known(file, wanted) or _outcome(wanted, tested, sites, self.policy)
        if file is not None:
            write_json(file, found, private=True)
        return found

    def learnt_from(self, method: Method, sites: Sequence[SiteData], seed: int) -> list[SiteData]:
        """Return the sites without the rows that a run with this seed is tested on."""
        tested = replace(method, holdout=self.holdout)
        policy = Policy() if self.policy is None else self.policy
        return [part_rows(method.normalise_labels(site), tested, seed, policy)[0] for site in sites]


def _outcome(
    entry: MethodResult, method: Method, sites: Sequence[SiteData], policy: Policy | None
) -> MethodResult:
    began = time.perf_counter()
    if getattr(method, "in_one_place", False):
        return _in_one_place(entry, method, sites, policy)
    try:
        finished = run(method, [method.normalise_labels(site) for site in sites], entry.seed, policy=policy)
    except Exception as error:  # one method's fault must not cost the others' figures
        return msgspec.structs.replace(entry, failure=_said(error), seconds=time.perf_counter() - began)
    why = "; ".join(str(warning) for warning in finished.warnings) if finished.evaluation is None else ""
    ledger = finished.ledger
    return msgspec.structs.replace(
        entry,
        evaluation=finished.evaluation,
        failure=why,
        seconds=time.perf_counter() - began,
        sent=round(ledger.sent() / max(len(ledger.sites), 1)),
    )


def _in_one_place(
    entry: MethodResult, method: Any, sites: Sequence[SiteData], policy: Policy | None
) -> MethodResult:
    """Train on the rows of all sites together, and test on the rows that they keep aside; nothing leaves anybody."""
    began = time.perf_counter()
    try:
        found = [method.normalise_labels(site) for site in sites]
        rules = policy or Policy()
        parts = [part_rows(site, method, entry.seed, rules) for site in found]
        model = method.fit_pooled([train for train, _ in parts], entry.seed)
        evaluation = evaluate_elsewhere(model, parts, entry.seed, least=rules.class_floors[1])
    except Exception as error:  # one row's fault must not cost the others' figures
        return msgspec.structs.replace(entry, failure=_said(error), seconds=time.perf_counter() - began)
    return msgspec.structs.replace(entry, evaluation=evaluation, seconds=time.perf_counter() - began)


def _said(error: Exception) -> str:
    """Return what an error says; of what nobody expected, its kind as well."""
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"


def _known(file: Path | None, wanted: MethodResult) -> MethodResult | None:
    """Return what was kept of a run that came through, on the same terms and tables."""
    if file is None or not file.is_file():
        return None
    try:
        found = msgspec.json.decode(file.read_bytes(), type=MethodResult)
    except msgspec.DecodeError:  # cut off
        return None
    same = all(getattr(found, name) == getattr(wanted, name) for name in SAME)
    if not same or found.evaluation is None:
        return None
    return msgspec.structs.replace(found, setting=wanted.setting, chosen=wanted.chosen)


def _plain(terms: dict[str, Any]) -> dict[str, Any]:
    """Return settings as they come back from a file."""
    found: dict[str, Any] = msgspec.json.decode(to_json(terms))
    return found


def hash_tables(sites: Sequence[SiteData]) -> str:
    """Return a hash of all sites' names, rows, labels and groups."""
    found = hashlib.sha256()
    for site in sites:
        found.update(repr((site.name, site.X.shape, site.columns)).encode())
        found.update(np.ascontiguousarray(site.X).tobytes())
        for values in (site.y, site.groups):
            found.update(b"" if values is None else "\n".join(values.astype(str).tolist()).encode())
    return found.hexdigest()

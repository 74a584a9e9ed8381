"""Run several methods or settings over the same rows and splits, and keep the results."""

from __future__ import annotations

import csv
import hashlib
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.engines.run import run
from fedgeom.errors import InputError
from fedgeom.evaluation.benchmark import HEAD, JUDGED, Contest, Entry, Sweep, Tried, best
from fedgeom.evaluation.evaluation import COLUMNS
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import file_name
from fedgeom.storage import make_private_folder, to_json, write_json, write_text

TABLE, FIGURES = "comparison.json", "comparison.csv"
"""The files of a comparison's folder: everything, and every figure in a line."""


def compare(
    methods: Mapping[str, Method],
    sites: Sequence[SiteData],
    *,
    seeds: Sequence[int] = (0,),
    holdout: float | Holdout = 0.25,
    policy: Policy | None = None,
    failed: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    watch: Callable[[Entry], None] | None = None,
) -> Contest:
    """Run each method with each seed; all keep the same rows aside, which follow from the seed and the sites' names.

    A method that fails says why in its place, as do those in ``failed``, and stops no other. In ``folder`` every
    outcome is kept when it is there: called again with the same methods, tables and holdout, only the rest is run.
    ``watch`` is told of each outcome.
    """
    kept = Holdout.read(holdout, "holdout")
    store = None if folder is None else make_private_folder(Path(folder) / "outcomes")
    entries = outcomes(methods, sites, seeds=seeds, holdout=kept, policy=policy, store=store, watch=watch)
    entries += [Entry(method=name, seed=seeds[0], failure=why) for name, why in (failed or {}).items()]
    contest = Contest(share=kept.share, entries=entries)
    if folder is not None:
        _write(Path(folder), contest)
    return contest


def outcomes(
    methods: Mapping[str, Method],
    sites: Sequence[SiteData],
    *,
    seeds: Sequence[int],
    holdout: Holdout,
    policy: Policy | None = None,
    store: Path | None = None,
    watch: Callable[[Entry], None] | None = None,
) -> list[Entry]:
    """Run each method with each seed, but for those whose outcome on the same terms and tables is in ``store``."""
    tables, entries = hash_tables(sites), list[Entry]()
    for name, method in methods.items():
        for seed in seeds:
            tested = replace(method, holdout=holdout)
            alone = getattr(method, "sends", None) == ()  # an algorithm whose sites send nothing
            entry = Entry(method=name, seed=seed, terms=_plain(tested.terms()), tables=tables, alone=alone)
            file = None if store is None else store / f"{file_name(name)}-{seed}.json"
            found = _known(file, entry) or _outcome(entry, tested, sites, policy)
            if file is not None:
                write_json(file, found, private=True)
            entries.append(found)
            if watch is not None:
                watch(found)
    return entries


def _outcome(entry: Entry, method: Method, sites: Sequence[SiteData], policy: Policy | None) -> Entry:
    began = time.perf_counter()
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


def _said(error: Exception) -> str:
    """Return what an error says; of what nobody expected, its kind as well."""
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"


def _known(file: Path | None, wanted: Entry) -> Entry | None:
    """Return what was kept of a method that came through, on the same terms and tables."""
    if file is None or not file.is_file():
        return None
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Entry)
    except msgspec.DecodeError:  # cut off
        return None
    same = (found.method, found.seed, found.terms, found.tables) == (
        wanted.method,
        wanted.seed,
        wanted.terms,
        wanted.tables,
    )
    return found if same and found.evaluation is not None else None


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


def _write(folder: Path, contest: Contest) -> None:
    write_json(folder / TABLE, contest, private=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "seed", "model", "metric", "value", "low", "high"])
    writer.writerows(contest.lines())
    write_text(folder / FIGURES, text.getvalue(), private=True)


SWEEP_TABLE, SWEEP_FIGURES = "sweep.json", "sweep.csv"
"""The files of a sweep's folder: everything, and every figure in a line."""


def sweep(
    rows: Mapping[str, Sequence[Method]],
    sites: Sequence[SiteData],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    holdout: float | Holdout = 0.25,
    by: str = JUDGED,
    policy: Policy | None = None,
    settings: Mapping[str, Sequence[dict[str, Any]]] | None = None,
    folder: str | Path | None = None,
    watch: Callable[[Entry], None] | None = None,
) -> Sweep:
    """Return how each row does with the settings that are chosen for it, seed by seed.

    A row is a list of methods, the same with other settings. With every seed each site keeps test rows aside. All of a
    row's methods are run over the other rows, of which a share is set aside once more, and the best there by the figure
    ``by`` is run over all of them and tested. Rows with one setting are tested at once. Every run goes through the
    whole protocol. In ``folder`` every outcome is kept when it is there: called again, only the rest is run.
    ``settings`` says in which settings each row's methods differ, for the tables.
    """
    _check(rows, by)
    kept = Holdout.read(holdout, "holdout")
    stores = [None if folder is None else make_private_folder(Path(folder) / part) for part in ("tried", "tested")]
    said = {row: list((settings or {}).get(row, [{} for _ in methods])) for row, methods in rows.items()}
    tried, tested = list[Tried](), list[Entry]()
    for seed in seeds:
        for row, methods in rows.items():
            number = 0
            if len(methods) > 1:
                tables = _learnt_from(methods[0], sites, kept, seed, policy)
                named = {f"{row}, setting {at + 1}": method for at, method in enumerate(methods)}
                entries = outcomes(
                    named, tables, seeds=(seed,), holdout=kept, policy=policy, store=stores[0], watch=watch
                )
                found = best(entries, by)
                number = found or 0
                tried += [
                    Tried(row=row, number=at, entry=entry, chosen=at == found) for at, entry in enumerate(entries)
                ]
            chosen = {row: methods[number]}
            tested += outcomes(
                chosen, sites, seeds=(seed,), holdout=kept, policy=policy, store=stores[1], watch=watch
            )
    swept = Sweep(share=kept.share, by=by, settings=said, tried=tried, tested=tested)
    if folder is not None:
        _write_sweeping(Path(folder), swept)
    return swept


def _check(rows: Mapping[str, Sequence[Method]], by: str) -> None:
    if by not in COLUMNS:
        raise InputError(f"by={by!r} given; wanted one of {', '.join(COLUMNS)}")
    empty = [row for row, methods in rows.items() if not methods]
    if not rows or empty:
        raise InputError(f"{'row ' + repr(empty[0]) if empty else 'the sweep'} has nothing to try")


def _learnt_from(
    method: Method, sites: Sequence[SiteData], kept: Holdout, seed: int, policy: Policy | None
) -> list[SiteData]:
    """Return the sites without the rows that a run with this seed is tested on."""
    tested = replace(method, holdout=kept)
    return [
        part_rows(method.normalise_labels(site), tested, seed, Policy() if policy is None else policy)[0]
        for site in sites
    ]


def _write_sweeping(folder: Path, swept: Sweep) -> None:
    write_json(folder / SWEEP_TABLE, msgspec.to_builtins(swept), private=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(swept.lines())
    write_text(folder / SWEEP_FIGURES, text.getvalue(), private=True)

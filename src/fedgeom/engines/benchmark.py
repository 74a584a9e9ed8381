"""Run several methods and settings over the same rows and splits, and keep the results.

A comparison is a sweep in which each row has one setting: nothing is chosen, and each is tested at once.
"""

from __future__ import annotations

import csv
import hashlib
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.engines.run import run
from fedgeom.errors import InputError
from fedgeom.evaluation.benchmark import HEAD, JUDGED, MethodResult, Sweep, best
from fedgeom.evaluation.evaluation import COLUMNS
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
    """
    _check(rows, by, failed or {})
    aside = Holdout.read(holdout, "holdout")
    wanted = [int(getattr(one, "min_rows", 0)) for methods in rows.values() for one in methods]
    most = max(wanted, default=0)
    same = replace(aside, keep=most) if most > max(aside.keep, LEAST) else aside  # or some have fewer test rows
    runs = _Runs(same, policy, _store(folder), watch)
    whole = hash_tables(sites)
    entries: list[MethodResult] = []
    for seed in seeds:
        for row, methods in rows.items():
            chosen = None
            if len(methods) > 1:
                tables = runs.learnt_from(methods[0], sites, seed)
                blank = MethodResult(row=row, seed=seed, stage="choosing", tables=hash_tables(tables))
                tried = [runs(blank, at, method, tables) for at, method in enumerate(methods)]
                chosen = best(tried, by)
                entries += [msgspec.structs.replace(one, chosen=one.setting == chosen) for one in tried]
            at = chosen or 0
            entries.append(
                runs(MethodResult(row=row, seed=seed, chosen=True, tables=whole), at, methods[at], sites)
            )
    entries += [MethodResult(row=row, seed=seeds[0], failure=why) for row, why in (failed or {}).items()]
    said = {row: list((settings or {}).get(row, [{} for _ in methods])) for row, methods in rows.items()}
    return Sweep(share=runs.holdout.share, by=by, settings=said, entries=entries)


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
    watch: Callable[[MethodResult], None] | None

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
        if self.watch is not None:
            self.watch(found)
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

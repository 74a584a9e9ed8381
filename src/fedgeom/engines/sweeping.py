"""Try several settings of each row with each seed, choose by rows set aside, and test what was chosen."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.data.sites import SiteData
from fedgeom.engines.comparing import outcomes
from fedgeom.errors import InputError
from fedgeom.evaluation.contest import JUDGED, Entry
from fedgeom.evaluation.figures import COLUMNS
from fedgeom.evaluation.sweep import HEAD, Sweep, Tried, best
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.storage import make_private_folder, write_json, write_text

TABLE, FIGURES = "sweep.json", "sweep.csv"
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
        _write(Path(folder), swept)
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


def _write(folder: Path, swept: Sweep) -> None:
    write_json(folder / TABLE, msgspec.to_builtins(swept), private=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(swept.lines())
    write_text(folder / FIGURES, text.getvalue(), private=True)

"""Studies: federation files made on the page, from tables that were dropped on it."""

from __future__ import annotations

import filecmp
import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.coordinator_process import is_running
from fedgeom.deploy.federation_file import build_method, read_federation, site_names, terms_of
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.approval import hash_terms
from fedgeom.federation.method import METHODS
from fedgeom.storage import write_text
from fedgeom.studio.places import Place, can_be_read, plain

PREPARATIONS = {
    "": "none: numbers as they are",
    "table": "table: gaps, words, one scale",
    "counts": "counts: raw gene counts",
}


async def keep_file(place: Place, name: str, parts: AsyncIterator[bytes]) -> Path:
    """Keep a file that was dropped on the page; what cannot be kept whole is removed again.

    The same file again is the one that is there; another of the same name is kept beside it, under a number.
    """
    plain(name)
    if not can_be_read(name):
        raise InputError(f"{name} is no table that can be read here; wanted .csv, .tsv, .parquet, .h5ad or .npz")
    target = place.make(place.files) / name
    half = target.with_name(f".{target.name}.part-{os.urandom(4).hex()}")
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            async for part in parts:
                file.write(part)
        if not half.stat().st_size:
            raise InputError(f"{name} is empty")
        return _beside(half, target)
    finally:
        half.unlink(missing_ok=True)


def _beside(half: Path, target: Path) -> Path:
    """Give a file its name, or the first with a number that is free or has the same content."""
    stem, dot, ending = target.name.partition(".")
    for number in itertools.count(1):
        wanted = target if number == 1 else target.with_name(f"{stem} ({number}){dot}{ending}")
        try:
            os.close(os.open(wanted, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # two tabs get two files
        except FileExistsError:
            if filecmp.cmp(half, wanted, shallow=False):
                return wanted
            continue
        return half.replace(wanted)
    raise AssertionError("numbers do not end")


def new_study(place: Place, files: Sequence[str], form: Mapping[str, str]) -> str:
    """Write the federation file that a form describes, and return the study's name."""
    tables = [place.table(name) for name in files]
    if not tables:
        raise InputError("no table was chosen")
    if not form.get("label"):
        raise InputError("no label was chosen: which column has the class of each row?")
    stem = plain(
        re.sub(r"[^A-Za-z0-9_-]+", "-", form.get("name") or tables[0].name.partition(".")[0]).strip("-") or "study"
    )
    lines = [f"label = {_quoted(form['label'])}", *_optional(form)]
    if len(tables) == 1:
        if not form.get("sites_from"):
            raise InputError("one table holds all sites: choose the column that says to which site a row belongs")
        lines = [
            f"file = {_quoted('../files/' + tables[0].name)}",
            f"sites_from = {_quoted(form['sites_from'])}",
            *lines,
        ]
    else:
        lines += [f"\n[[sites]]\nfile = {_quoted('../files/' + one.name)}" for one in tables]
    return _write(place, stem, lines)


def new_job_study(place: Place, form: Mapping[str, str]) -> str:
    """Write the federation file of a job for the coordinator's sites, and return its name; sites have their tables."""
    if not form.get("method"):
        raise InputError("no method was chosen; the tables are at the sites, so none is proposed here")
    stem = plain(re.sub(r"[^A-Za-z0-9_-]+", "-", form.get("name") or form["method"]).strip("-") or "job")
    return _write(place, stem, _optional(form))


def _write(place: Place, stem: str, lines: Sequence[str]) -> str:
    """Write a study under the first name that is free."""
    place.make(place.studies)
    for number in range(1, 10_000):
        target = place.studies / (f"{stem}.toml" if number == 1 else f"{stem}-{number}.toml")
        try:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # two tabs get two studies
        except FileExistsError:
            continue
        write_text(target, "\n".join(lines) + "\n", private=True)
        return target.stem
    raise InputError(f"there are too many studies called {stem}")


def is_for_sites(file: Path) -> bool:
    """Say whether a federation file is a job for sites that have their tables themselves: it names none."""
    try:
        plan = read_federation(file)
    except FedgeomError:  # the check of the file says what is wrong with it
        return False
    return not plan.file and not any(one.file for one in plan.sites)


def job_facts(folder: CoordinatorFolder, file: Path) -> dict[str, Any]:
    """Return what a job would be: who is asked, on which terms, and what is wrong with it, if anything."""
    found: dict[str, Any] = {
        "names": [],
        "method": "",
        "leaves": (),
        "hash": "",
        "wrong": "",
        "running": is_running(folder),
    }
    try:
        plan = read_federation(file)
        found["names"] = sorted(site_names(plan) or list(folder.roster()))
        method = build_method(file, plan)
        found |= {"method": method.name, "leaves": method.would_leave()}
        found["hash"] = hash_terms(terms_of(file, plan, tuple(found["names"]))).hex()
    except FedgeomError as error:
        found["wrong"] = str(error)
    return found


def _optional(form: Mapping[str, str]) -> list[str]:
    lines = []
    for key in ("method", "names", "prepare"):
        if form.get(key):
            lines.append(f"{key} = {_quoted(form[key])}")
    share = form.get("holdout") or "0.25"
    try:
        lines.append(f"holdout = {float(share):g}")
    except ValueError:
        raise InputError(f"{share!r} given for the share kept aside; wanted a number such as 0.25") from None
    return lines


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def method_names() -> list[str]:
    """Return the methods that can be chosen."""
    return sorted(METHODS)

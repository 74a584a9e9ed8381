"""Studies: federation files made on the page, from tables that were dropped on it."""

from __future__ import annotations

import filecmp
import itertools
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.cells import NOTHING_SAID, ReadColumn, is_empty, read_columns
from fedgeom.data.csv import places_of, text_table
from fedgeom.data.datasets import available, load_set
from fedgeom.data.demo_data import LABEL, in_own_words, write_raw_tables
from fedgeom.data.doubts import doubts
from fedgeom.data.frames import check_h5ad, check_parquet, header_of_xlsx, sheet_of
from fedgeom.data.readers import READERS, WORKBOOKS, read_site, read_sites_from
from fedgeom.data.tables import need, numbers
from fedgeom.data.validation import Finding
from fedgeom.deploy.config import as_toml
from fedgeom.deploy.coordinator import is_running
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.federation_check import CheckedFederation
from fedgeom.deploy.federation_file import build_method, read_federation, site_names, terms_of
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.policy import hash_terms
from fedgeom.methods import SUMMARIES
from fedgeom.protocols.plan import Costs, costs_of, shape_of
from fedgeom.protocols.plan import leaves as planned_leaves
from fedgeom.storage import check_archive, write_text
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
        raise InputError(f"{name} is no table that can be read here; wanted {', '.join(READERS)}")
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
    timed = form.get("method") in TIMES
    if timed and not (form.get("time") and form.get("event")):
        raise InputError(
            f"{form['method']} explains times until an event: choose the column of times, and that which says whether "
            "the event came"
        )
    if not timed and not form.get("label"):
        raise InputError("no label was chosen: which column has the class of each row?")
    stem = plain(
        re.sub(r"[^A-Za-z0-9_-]+", "-", form.get("name") or tables[0].name.partition(".")[0]).strip("-") or "study"
    )
    named = ("time", "event") if timed else ("label",)
    lines = [*(f"{key} = {_quoted(form[key])}" for key in named), *_optional(form, tested=not timed)]
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


def can_map(method: Method) -> bool:
    """Say whether a study's rows can be drawn on one map: of classes with the same names everywhere."""
    return (
        method.name != "poincare-map" and method.takes_holdout and getattr(method, "names", "shared") == "shared"
    )


def new_map(place: Place, study: str) -> str:
    """Write the federation file of the joint map of a study's rows, and return its name."""
    plan = tomllib.loads(place.study(study).read_text(encoding="utf-8"))
    kept = {key: value for key, value in plan.items() if key not in NOT_FOR_MAPS}
    tables = kept.pop("sites", [])
    policy = kept.pop("policy", {})
    lines = ['method = "poincare-map"', *(f"{key} = {as_toml(value)}" for key, value in kept.items())]
    lines += ["\n[policy]", *(f"{key} = {as_toml(value)}" for key, value in policy.items())] if policy else []
    for one in tables:
        lines += ["\n[[sites]]", *(f"{key} = {as_toml(value)}" for key, value in one.items())]
    return _write(place, f"{study}-map", lines)


NOT_FOR_MAPS = ("method", "names", "parameters", "compare", "sweep", "treatment")
"""Keys of a study that are for its own method."""


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


MOST_COUNTED = 2_000_000
"""Of tables with more cells than this the cost is counted on demand: `fedgeom cost` rehearses their preparation."""


def study_cost(checked: CheckedFederation) -> Costs | None:
    """Return what a study would cost; None where it cannot run, or its tables are large."""
    if checked.method is None or checked.plan is None or not checked.report.ready:
        return None
    if sum(len(site) * site.shape[1] for site in checked.sites) > MOST_COUNTED:
        return None
    return costs_of(checked.method, shape_of(checked.method, checked.sites, checked.policy, checked.plan.seed))


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
        "purpose": "",
        "running": is_running(folder),
    }
    try:
        plan = read_federation(file)
        found["purpose"] = plan.purpose
        found["names"] = sorted(site_names(plan) or list(folder.roster()))
        method = build_method(file, plan)
        found |= {"method": method.name, "leaves": planned_leaves(method)}
        found["hash"] = hash_terms(terms_of(file, plan, tuple(found["names"]))).hex()
    except FedgeomError as error:
        found["wrong"] = str(error)
    return found


def _optional(form: Mapping[str, str], *, tested: bool = True) -> list[str]:
    lines = []
    for key in ("method", "names", "prepare", "purpose"):
        if form.get(key):
            lines.append(f"{key} = {_quoted(form[key].strip())}")
    if not tested:
        return lines
    share = form.get("holdout") or "0.25"
    try:
        lines.append(f"holdout = {float(share):g}")
    except ValueError:
        raise InputError(f"{share!r} given for the share kept aside; wanted a number such as 0.25") from None
    return lines


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


TIMES = ("cox", "kaplan-meier")
"""Methods that explain times until an event instead of labels."""
GROUPS: dict[str, tuple[str, ...]] = {
    "One exchange of sums": ("ridge", "moments", "ellipses", "hulls", "shrunk"),
    "Few labels": ("xclp", "xclp-training"),
    "Pictures and effects": ("poincare-map", "regression"),
    "Times until an event": TIMES,
}
"""Methods that belong together in a list; all others train in rounds."""
IN_ROUNDS = "Training in rounds"


def method_groups() -> dict[str, list[tuple[str, str]]]:
    """Return the methods that can be chosen, in groups, each with a line about it."""
    placed = {name for names in GROUPS.values() for name in names}
    groups = {title: [name for name in names if name in METHODS] for title, names in GROUPS.items()}
    groups[IN_ROUNDS] = [name for name in sorted(METHODS) if name not in placed]
    return {
        title: [(name, SUMMARIES.get(name, "").partition(": ")[0]) for name in names]
        for title, names in groups.items()
    }


@dataclass(frozen=True)
class Example:
    """Tables to try the studio with."""

    title: str
    what: str
    set: str
    """The built-in set."""
    rows: int | None = None
    """So many rows of a site."""


EXAMPLES: dict[str, Example] = {
    "hospitals": Example(
        "Four hospitals",
        "Breast tumours, benign or malignant: raw files with gaps, each with its hospital's own label names.",
        "breast-cancer",
    ),
    "cells": Example(
        "T cells of five hospitals",
        "Flow cytometry: seven markers, ten cell types, and label names of each hospital's own.",
        "hipc",
        800,
    ),
}
"""The examples; those whose data are not on this machine are not offered."""


def examples() -> dict[str, Example]:
    """Return the examples that can be made here."""
    there = available()
    return {name: one for name, one in EXAMPLES.items() if one.set in there}


def new_example(place: Place, name: str) -> str:
    """Write an example's tables and its study, and return the study's name."""
    if name not in examples():
        raise InputError(f"there is no example {name!r} here; there are: {', '.join(examples())}")
    example = EXAMPLES[name]
    some: dict[str, Any] = {} if example.rows is None else {"rows": example.rows}
    data, _ = in_own_words(load_set(example.set, test_share=0.0, **some))
    files = write_raw_tables(data.train, place.make(place.files), prefix=f"example-{name}-")
    lines = [f"label = {_quoted(LABEL)}", 'names = "own"', 'prepare = "table"', "holdout = 0.25"]
    for site, file in zip(data.train, files, strict=True):
        lines.append(f"\n[[sites]]\nname = {_quoted(site.name)}\nfile = {_quoted('../files/' + file.name)}")
    return _write(place, name, lines)


MOST_COLUMNS = 60
"""So many columns are shown."""
MOST_BARS = 16
"""So many bars show how a column's values are spread."""
MOST_CLASSES = 60
"""A column with more values than this is no label."""
SITES = ("site", "hospital", "donor", "center", "centre", "batch", "clinic", "laboratory")
LABELS = ("label", "class", "diagnosis", "cell_type", "celltype", "outcome", "target", "y")


@dataclass(frozen=True)
class ColumnFacts:
    """One column."""

    name: str
    kind: str
    """"numbers", "whole numbers", "words", or "to mend": cells that are neither."""
    gaps: int
    distinct: int
    examples: str
    bars: tuple[float, ...] = ()
    """How often values occur, each as a share of the most frequent: numbers in bins, words from the commonest on."""
    note: str = ""
    """How its numbers were read where that is not plain, or what is wrong with them and what to do."""


@dataclass(frozen=True)
class FileFacts:
    """One file."""

    rows: int
    columns: list[ColumnFacts]
    """Columns that can be a label or say the site; of a text table, all."""
    matrix: str = ""
    """What else there is, such as the matrix of an .h5ad."""
    counts: bool = False
    """Whether the features look like raw counts."""

    def label(self) -> str:
        """Return the column that is probably the label; nothing where none is."""
        likely = [one.name for one in self.columns if one.name.lower() in LABELS and one.distinct <= MOST_CLASSES]
        words = [one.name for one in self.columns if one.kind == "words" and 2 <= one.distinct <= MOST_CLASSES]
        return next(iter([*likely, *reversed(words)]), "")

    def sites_from(self) -> str:
        """Return the column that probably says to which site a row belongs; nothing where none is."""
        found = [one.name for one in self.columns if any(word in one.name.lower() for word in SITES)]
        return next(iter(found), "")

    def preparation(self) -> str:
        """Return the preparation that the table probably needs; nothing where it needs none."""
        if self.counts:
            return "counts"
        label = self.label()
        features = [one for one in self.columns if one.name not in (label, self.sites_from())]
        rough = any(one.gaps or one.kind == "words" for one in features)
        return "table" if rough and not self.matrix else ""


def likely_mistakes(files: Sequence[Path], facts: Sequence[FileFacts]) -> list[Finding]:
    """Return what looks like a mistake in tables, taken with the label and the sites that they probably have.

    Those about the label have its column; large tables are looked at when a study is checked.
    """
    label, by = facts[0].label(), facts[0].sites_from()
    cells = sum(one.rows * max(len(one.columns), 1) for one in facts)
    if not label or cells > MOST_COUNTED or any(one.matrix for one in facts):
        return []
    try:
        if len(files) == 1 and by:
            sites = read_sites_from(files[0], by=by, label=label, text=True)
        else:
            sites = [read_site(one, label=label, text=True) for one in files]
    except InputError:  # its columns say what is wrong, or the check of the study
        return []
    found = doubts(sites, raw=True)
    return [replace(one, columns=(label,)) if one.topic == "labels" else one for one in found]


def file_facts(file: Path) -> FileFacts:
    """Look at a table; what cannot be read raises `InputError`."""
    bare = file.name.lower().removesuffix(".gz")
    try:
        if bare.endswith((".csv", ".tsv")):
            found = text_table(file, "\t" if bare.endswith(".tsv") else None)
            return _cells(file, found.header, found.lines, found.first_row, found.mark)
        if bare.endswith(WORKBOOKS):
            rows = [["" if cell is None else cell for cell in row] for row in sheet_of(file)[1:]]
            return _cells(file, header_of_xlsx(file, NOTHING_SAID), rows, 2)
        if bare.endswith(".parquet"):
            check_parquet(file, need(file, "pyarrow.parquet").read_metadata(file))
            return _frame(need(file, "pandas", "pyarrow").read_parquet(file))
        if bare.endswith(".h5ad"):
            check_h5ad(file)
            return _anndata(need(file, "anndata").read_h5ad(file, backed="r"))
        if bare.endswith(".npz"):
            return _archive(file)
    except InputError:
        raise
    except Exception as error:  # what a library says of a damaged file
        raise InputError(f"{file.name} cannot be read: {str(error) or type(error).__name__}") from error
    raise InputError(f"{file.name}: the studio looks into .csv, .tsv, .npz, .parquet, .h5ad files and workbooks")


def _cells(
    file: Path, header: Sequence[str], lines: Sequence[Sequence[Any]], first_row: int, separator: str = ""
) -> FileFacts:
    """Look at a table of texts as a run would read it: decimal commas, thousands and cells to mend are found."""
    places = places_of(file, header)

    def cells(name: str) -> list[Any]:
        return [line[places[name]] if places[name] < len(line) else "" for line in lines]

    odd = []
    for name in places:
        try:
            numbers(np.asarray(cells(name)))
        except (TypeError, ValueError):
            odd.append(name)
    plain = [name for name in places if name not in odd]
    read = read_columns(odd, cells, plain, first_row=first_row, reading=NOTHING_SAID, separator=separator)
    return FileFacts(len(lines), [_column(name, cells(name), read.get(name)) for name in places])


def _column(name: str, cells: Sequence[Any], read: ReadColumn | None = None) -> ColumnFacts:
    """Describe a column; ``read``: how it was read, where its cells are not plain numbers."""
    texts = [str(cell).strip() for cell in cells]
    said = [text for text in texts if not is_empty(text)]
    values = dict.fromkeys(said)
    few = ", ".join(list(values)[:4]) + (" …" if len(values) > 4 else "")
    found = _as_numbers(said) if read is None else read.values
    notes: list[str] = []
    if read is not None:
        notes = [way for way, _ in read.written] + [one.what for one in read.remarks]
        notes += [f"{read.why}; {read.remedy}" if read.remedy else read.why] if read.why else []
    if found is None:
        kind = "to mend" if read is not None and read.why else "words"
        counts = [count for _, count in Counter(said).most_common(MOST_BARS)]
    else:
        finite = found[np.isfinite(found)]
        whole = bool(len(finite)) and bool((finite == np.round(finite)).all())
        kind = "whole numbers" if whole else "numbers"
        counts = np.histogram(finite, bins=MOST_BARS)[0].tolist() if len(finite) else []
    bars = tuple(count / max(counts) for count in counts)
    return ColumnFacts(name, kind, len(texts) - len(said), len(values), few, bars, "; ".join(notes))


def _as_numbers(said: Sequence[str]) -> Floats | None:
    """Return texts as numbers; None where one is none."""
    try:
        return np.array(said, dtype=np.float64)
    except ValueError:
        return None


def _frame(frame: Any) -> FileFacts:
    return FileFacts(len(frame), [_column(str(name), frame[name].tolist()) for name in frame.columns])


def _anndata(cells: Any) -> FileFacts:
    try:
        some = cells.X[: min(200, cells.n_obs)]
        values = np.asarray(some.data if hasattr(some, "indptr") else some)
        counts = bool(values.size) and bool((values >= 0).all()) and bool((values == np.round(values)).all())
        columns = [_column(str(name), cells.obs[name].tolist()) for name in cells.obs.columns]
        kind = "raw counts" if counts else "numbers"
        return FileFacts(cells.n_obs, columns, f"a matrix of {cells.n_vars:,} genes, {kind}", counts)
    finally:
        cells.file.close()


def _archive(file: Path) -> FileFacts:
    check_archive(file)
    with np.load(file) as arrays:
        shapes = {name: arrays[name].shape for name in arrays.files}
        flat = [name for name, shape in shapes.items() if len(shape) == 1 and shape[0]]
        columns = [_column(name, arrays[name].tolist()) for name in flat]
    rows = max((shape[0] for shape in shapes.values() if shape), default=0)
    said = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if len(shape) > 1)
    return FileFacts(rows, columns, f"arrays: {said}" if said else "")

"""Predictions made on the page: a model of a run, a table that is here, and what came of it as a file."""

from __future__ import annotations

import csv
import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fedgeom.errors import InputError, printable
from fedgeom.methods.catalogue import method_class
from fedgeom.studio.places import Place, plain, run_line, run_names
from fedgeom.studio.runs import COMMAND

SHOWN_ROWS = 50
"""So many rows of a prediction are shown; its file has all."""
MOST_RUNS = 50
"""So many of the last runs can be chosen."""
MOST_SECONDS = 600
"""A prediction that takes longer is better made on the command line."""
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Prediction:
    """A file of predictions, as the page shows it."""

    name: str
    head: list[str]
    rows: list[list[str]]
    """The first rows."""
    count: int
    classes: list[tuple[str, int]]
    """How many rows have which class, the commonest first."""

    @property
    def unknown(self) -> int:
        """How many rows fit no class."""
        return dict(self.classes).get(UNKNOWN, 0)


def usable_runs(place: Place) -> list[tuple[str, list[str]]]:
    """Return the finished runs that have a model, each with the sites that have one of their own."""
    found = []
    for name in run_names(place.runs)[:MOST_RUNS]:
        folder = place.runs / name
        line = run_line(folder)
        if line.state == "finished" and (folder / "model.safetensors").is_file() and _predicts(line.method):
            found.append((name, sorted(file.stem for file in (folder / "sites").glob("*.safetensors"))))
    return found


def _predicts(method: str) -> bool:
    """Say whether a method's models predict; of one that is not installed here, `fedgeom predict` says that."""
    try:
        return method_class(method).predicts
    except InputError:
        return True


def predict(place: Place, run: str, table: str, site: str = "", unknown: str = "", ignore: bool = True) -> str:
    """Predict the classes of a table's rows as `fedgeom predict` does, and return the name of the file."""
    if not run:
        raise InputError("no run was chosen: which model is to predict?")
    if not table:
        raise InputError("no table was chosen: which rows are to be predicted?")
    target = place.make(place.predictions) / f"{plain(run)} {plain(table).partition('.')[0]}.csv"
    words = [*COMMAND, "predict", str(place.run(run)), str(place.table(table)), "--out", str(target), "--force"]
    if site:
        words += ["--site", site]
    if unknown:
        words += ["--unknown", unknown]
    if ignore:
        words.append("--ignore-others")
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=MOST_SECONDS, stdin=subprocess.DEVNULL, cwd=place.path,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "COLUMNS": "1000"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InputError(
            f"the prediction took longer than {MOST_SECONDS // 60} minutes and was stopped; make it on the command "
            f"line: fedgeom predict runs/{run} files/{table} --out predictions.csv"
        ) from None
    if done.returncode:
        said = printable(
            done.stderr.strip() or done.stdout.strip() or "the prediction ended without a word", lines=True
        )
        raise InputError(said)
    return target.name


def read_prediction(place: Place, name: str) -> Prediction:
    """Read a file of predictions."""
    file = prediction_file(place, name)
    with file.open(newline="", encoding="utf-8") as text:
        lines = csv.reader(text)
        head = next(lines, [])
        at = head.index("class") if "class" in head else min(1, len(head) - 1)
        rows: list[list[str]] = []
        classes: Counter[str] = Counter()
        for line in lines:
            if len(rows) < SHOWN_ROWS:
                rows.append(line)
            classes[line[at]] += 1
    return Prediction(name, head, rows, classes.total(), classes.most_common())


def prediction_file(place: Place, name: str) -> Path:
    """Return a file of predictions by its name."""
    file = place.predictions / plain(name)
    if not file.is_file():
        raise InputError(f"there is no prediction {name!r} here; it may have been removed")
    return file

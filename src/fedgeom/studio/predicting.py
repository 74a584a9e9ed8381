"""Predictions made on the page: a model of a run, a table that is here, and what came of it as a file."""

from __future__ import annotations

import csv
import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from fedgeom.data.predictions import Predictions, write_predictions
from fedgeom.data.readers import RowNames
from fedgeom.errors import InputError, printable
from fedgeom.methods.catalogue import method_class
from fedgeom.report.explorer import Outline, Scene, disc_place, scene_of
from fedgeom.report.run_folder import RunFiles, read_run
from fedgeom.storage import write_json
from fedgeom.studio.places import Place, plain, run_line, run_names
from fedgeom.studio.runs import COMMAND

SHOWN_ROWS = 50
"""So many rows of a prediction are shown; its file has all."""
MOST_RUNS = 50
"""So many of the last runs can be chosen."""
MOST_SECONDS = 600
"""A prediction that takes longer is better made on the command line."""
UNKNOWN = "unknown"
MOST_DRAWN = 20_000
"""So many new rows are drawn on a map; of more, some at random."""


class PredictionSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a prediction was made of: kept beside its file."""

    run: str
    table: str
    site: str = ""


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
    source: PredictionSource | None = None
    """What it was made of, where that is known."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What numbered classes are called at the sites."""
    scene: Scene | None = None
    """The run's map with the new rows on it; None where its model has none."""

    @property
    def unknown(self) -> int:
        """How many rows fit no class."""
        return dict(self.classes).get(UNKNOWN, 0)


def usable_runs(place: Place) -> list[tuple[str, list[str]]]:
    """Return the finished runs that have a model, each with the sites that have one of their own."""
    found = []
    for name in run_names(place.runs)[:MOST_RUNS]:
        folder = place.runs / name
        if has_model(folder):
            found.append((name, sorted(file.stem for file in (folder / "sites").glob("*.safetensors"))))
    return found


def has_model(folder: Path) -> bool:
    """Say whether a run has ended with a model that predicts."""
    line = run_line(folder)
    return line.state == "finished" and (folder / "model.safetensors").is_file() and _predicts(line.method)


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
    if getattr(read_run(place.run(run), rows=False).model, "in_disc", False):
        words.append("--map")
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
    write_json(target.with_suffix(".json"), PredictionSource(run, table, site), private=True)
    return target.name


def read_prediction(place: Place, name: str) -> Prediction:
    """Read a file of predictions."""
    head, lines = _lines(prediction_file(place, name))
    at = head.index("class") if "class" in head else min(1, len(head) - 1)
    source = _source(place, name)
    run = None
    if source is not None and (place.runs / source.run / "config.json").is_file():  # it may have been removed
        run = read_run(place.runs / source.run, rows=False)
    called = {} if run is None or source is None or source.site else _called(run)
    return Prediction(
        name,
        head,
        lines[:SHOWN_ROWS],
        len(lines),
        Counter(line[at] for line in lines).most_common(),
        source,
        called,
        None if run is None else _on_map(run, head, lines, at),
    )


def _lines(file: Path) -> tuple[list[str], list[list[str]]]:
    with file.open(newline="", encoding="utf-8") as text:
        lines = csv.reader(text)
        return next(lines, []), list(lines)


def _source(place: Place, name: str) -> PredictionSource | None:
    file = (place.predictions / plain(name)).with_suffix(".json")
    return msgspec.json.decode(file.read_bytes(), type=PredictionSource) if file.is_file() else None


def _called(run: RunFiles) -> dict[str, str]:
    """Return what the sites call the classes of a run, by number, where the numbers are all that it has for names."""
    return {str(at): name for at, name in run.class_names().items() if name != str(at)}


def _on_map(run: RunFiles, head: Sequence[str], lines: Sequence[Sequence[str]], at: int) -> Scene | None:
    """Return the map of a run with new rows on it; None where rows have no place."""
    scene = scene_of(run) if "map_2" in head else None
    if scene is None or not scene.disc:
        return None
    drawn = np.sort(np.random.default_rng(0).permutation(len(lines))[:MOST_DRAWN]).tolist()
    across, up = head.index("map_1"), head.index("map_2")
    points = np.array([[lines[one][across], lines[one][up]] for one in drawn], np.float64).reshape(-1, 2)
    number = {name: group for group, name in scene.classes.items()} | {
        str(group): group for group in scene.classes
    }
    groups = np.array([number.get(lines[one][at], -1) for one in drawn], np.int64)
    dots = []
    for group in np.unique(groups).tolist():
        mine = points[groups == group]
        path = "".join(f"M{x:.2f} {y:.2f}h0" for x, y in disc_place(mine).tolist())
        spots = " ".join(f"{x:g},{y:g}" for x, y in mine.tolist())
        dots.append(Outline(group, "", path, "", spots))
    some = f" {len(drawn):,} of {len(lines):,} rows are drawn." if len(drawn) < len(lines) else ""
    note = f"Dots are the new rows, coloured by the class that they were given.{some}"
    return scene._replace(title="The new rows on the joint map", note=note, dots=dots, rows_called="new rows")


def as_h5ad(place: Place, name: str) -> Path:
    """Write a copy of the table that was predicted, with the predictions in it, and return its file."""
    source = _source(place, name)
    if source is None or not source.table.lower().endswith(".h5ad"):
        raise InputError(f"{name} was not made of an .h5ad file, so there is none to copy; take the CSV")
    table = place.table(source.table)
    head, lines = _lines(prediction_file(place, name))
    column = {title: np.array([line[at] for line in lines]) for at, title in enumerate(head)}
    places = [column[title].astype(np.float64) for title in head if title.startswith("map_")]
    made = Predictions(
        RowNames(head[0], tuple(column[head[0]].tolist())),
        column["class"],
        column["probability"].astype(np.float64) if "probability" in column else None,
        best=column.get("best_class"),
        places=np.column_stack(places) if places else None,
    )
    target = (place.predictions / plain(name)).with_suffix(".h5ad")
    write_predictions(target, table, made)
    return target


def prediction_file(place: Place, name: str) -> Path:
    """Return a file of predictions by its name."""
    file = place.predictions / plain(name)
    if not file.is_file():
        raise InputError(f"there is no prediction {name!r} here; it may have been removed")
    return file

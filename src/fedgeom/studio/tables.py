"""What a table is: its columns with their kinds, gaps and values, before anybody said which is the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.data.tables import need
from fedgeom.data.text_tables import read_cells
from fedgeom.errors import InputError

MOST_COLUMNS = 60
"""So many columns are shown."""
MOST_CLASSES = 60
"""A column with more values than this is no label."""
SITES = ("site", "hospital", "donor", "center", "centre", "batch", "clinic", "laboratory")
LABELS = ("label", "class", "diagnosis", "cell_type", "celltype", "outcome", "target", "y")
GAPS = ("", "na", "nan", "null", "none", "?")


@dataclass(frozen=True)
class ColumnFacts:
    """One column."""

    name: str
    kind: str
    """"numbers", "whole numbers" or "words"."""
    gaps: int
    distinct: int
    examples: str


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


def file_facts(file: Path) -> FileFacts:
    """Look at a table; what cannot be read raises `InputError`."""
    bare = file.name.lower().removesuffix(".gz")
    try:
        if bare.endswith((".csv", ".tsv")):
            head, cells = read_cells(file, "\t" if bare.endswith(".tsv") else None)
            columns = [[row[at] if at < len(row) else "" for row in cells] for at in range(len(head))]
            return FileFacts(len(cells), [_column(n, c) for n, c in zip(head, columns, strict=True)])
        if bare.endswith(".parquet"):
            return _frame(need(file, "pandas", "pyarrow").read_parquet(file))
        if bare.endswith(".h5ad"):
            return _anndata(need(file, "anndata").read_h5ad(file, backed="r"))
        if bare.endswith(".npz"):
            return _archive(file)
    except InputError:
        raise
    except Exception as error:  # what a library says of a damaged file
        raise InputError(f"{file.name} cannot be read: {str(error) or type(error).__name__}") from error
    raise InputError(f"{file.name}: the studio looks into .csv, .tsv, .parquet, .h5ad and .npz files")


def _column(name: str, cells: Sequence[Any]) -> ColumnFacts:
    texts = [str(cell).strip() for cell in cells]
    said = [text for text in texts if text.lower() not in GAPS]
    values = dict.fromkeys(said)
    try:
        numbers = np.array(list(values), dtype=np.float64)
        whole = bool(len(numbers)) and bool((numbers == np.round(numbers)).all())
        kind = "whole numbers" if whole else "numbers"
    except ValueError:
        kind = "words"
    few = ", ".join(list(values)[:4])
    return ColumnFacts(name, kind, len(texts) - len(said), len(values), few + (" …" if len(values) > 4 else ""))


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
    with np.load(file) as arrays:
        shapes = {name: arrays[name].shape for name in arrays.files}
        flat = [name for name, shape in shapes.items() if len(shape) == 1 and shape[0]]
        columns = [_column(name, arrays[name].tolist()) for name in flat]
    rows = max((shape[0] for shape in shapes.values() if shape), default=0)
    said = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if len(shape) > 1)
    return FileFacts(rows, columns, f"arrays: {said}" if said else "")

"""Writing down which class each row of a file was put into: as a table, or as a copy of the file with columns added."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.csv import read_carefully, read_cells
from fedgeom.data.readers import UNNAMED, RowNames, ending_of
from fedgeom.data.tables import need
from fedgeom.errors import InputError
from fedgeom.storage import replacing, write_text

ADDED = "fedgeom_"
"""What the names of added columns begin with."""
OBSM_MAP = "X_poincare"
"""What places on a map are called in an AnnData file."""


@dataclass(frozen=True)
class Predictions:
    """The classes of a file's rows, in the order of the file."""

    rows: RowNames
    found: npt.NDArray[Any]
    """(rows,): the class, a text or a number, or the word for rows that fit none."""
    probability: Floats | None = None
    """(rows,): how probable the best class is."""
    best: npt.NDArray[Any] | None = None
    """(rows,): the best class also of rows that fit none well; None where nobody asked which fit."""
    classes: tuple[str, ...] = ()
    """What the columns of ``probabilities`` are."""
    probabilities: Floats | None = None
    """(rows, classes)"""
    places: Floats | None = None
    """(rows, dimension): where rows are on a hyperbolic map; None where nobody asked."""

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return what is said of each row, by name, without the probabilities of all classes."""
        said: dict[str, npt.NDArray[Any] | None] = {
            "class": self.found, "probability": self.probability, "best_class": self.best
        }  # fmt: skip
        return {name: values for name, values in said.items() if values is not None}

    def all_columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return what is said of each row, by name, with a column for each class where they were asked for."""
        found = self.columns()
        if self.probabilities is not None:
            found |= {f"probability_of_{c}": p for c, p in zip(self.classes, self.probabilities.T, strict=True)}
        if self.places is not None:
            found |= {f"map_{at}": values for at, values in enumerate(self.places.T, start=1)}
        return found


def check_target(out: Path, source: Path, *, force: bool) -> None:
    """Raise `InputError` when predictions for a source cannot be written to a file: asked before the work is done."""
    kind = ending_of(out)
    of = ending_of(source)
    if out.name.lower().endswith(".gz") or kind not in (".csv", ".tsv", ".parquet", ".h5ad"):
        raise InputError(
            f"--out {out} given; wanted a file that ends in .csv or .tsv, for a table, or in .parquet or .h5ad, for a "
            "copy of the rows with columns added"
        )
    copies = {".h5ad": (".h5ad",), ".parquet": (".parquet", ".csv", ".tsv")}
    if kind in copies and of not in copies[kind]:
        raise InputError(
            f"--out {out} would be a copy of {source} with columns added, but a {kind} file can only be made of "
            f"{' or '.join(copies[kind])}; write a table instead: --out {out.with_suffix('.csv').name}"
        )
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} for {out.name} does not exist; make it first")
    if out.is_dir():
        raise InputError(f"{out} is a folder; wanted a file")
    if out.exists() and out.samefile(source) and (kind not in copies or kind != of):
        raise InputError(f"--out {out} is the file with the rows, which would be lost; choose another name")
    if (out.exists() or out.is_symlink()) and not force:
        raise InputError(f"{out} exists; choose another file, or give --force to replace it")


def write_predictions(out: Path, source: Path, made: Predictions, features: Sequence[str] = ()) -> None:
    """Write predictions for a source to a file, which is whole or not there; see `check_target`.

    ``features`` are the columns of a text file that hold numbers: in a Parquet copy they are numbers, the others stay
    texts, letter by letter.
    """
    kind = ending_of(out)
    if kind in (".csv", ".tsv"):
        write_text(out, as_text(made, "\t" if kind == ".tsv" else ","))
        return
    write: Callable[[Path], None]
    if kind == ".h5ad":
        write = lambda draft: _copy_h5ad(draft, source, made)  # noqa: E731
    else:
        write = lambda draft: _copy_parquet(draft, source, made, features)  # noqa: E731
    with replacing(out) as draft:
        write(draft)


def as_text(made: Predictions, mark: str = ",") -> str:
    """Return predictions as a table of text: the names of the rows, and what is said of them."""
    found = made.all_columns()
    cells = [
        [f"{v:.{7 if name.startswith('map_') else 4}f}" for v in values] if values.dtype.kind == "f" else values
        for name, values in found.items()
    ]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=mark, lineterminator="\n")
    writer.writerow([made.rows.title, *found])
    writer.writerows(zip(made.rows.names, *cells, strict=True))
    return text.getvalue()


def _copy_parquet(draft: Path, source: Path, made: Predictions, features: Sequence[str]) -> None:
    """Write all columns of a table, as they are, and the predictions after them; the file's notes are kept."""
    arrow = need(source, "pyarrow", "pandas")
    parquet = need(source, "pyarrow.parquet")
    table = parquet.read_table(source) if ending_of(source) == ".parquet" else _from_text(arrow, source, features)
    for name, values in made.all_columns().items():
        if ADDED + name in table.column_names:
            table = table.drop_columns([ADDED + name])
        table = table.append_column(ADDED + name, arrow.array(values))
    parquet.write_table(table, draft)


def _from_text(arrow: Any, source: Path, features: Sequence[str]) -> Any:
    """Return a text file as a table: features as numbers, everything else letter by letter."""
    mark = "\t" if ending_of(source) == ".tsv" else None
    header, lines = read_cells(source, mark)
    cells = {name: [line[at] for line in lines] for at, name in enumerate(header)}
    known = [name for name in header if name in set(features)]
    read: dict[str, Any] = {}
    if known:  # in the file's own way of writing numbers, such as decimal commas
        table = read_carefully(source, mark, None, known, ())
        read = {name: table.X[:, at] for at, name in enumerate(known)}
    found = {
        name or UNNAMED: arrow.array(read[name], from_pandas=True) if name in read else arrow.array(some)
        for name, some in cells.items()
    }
    return arrow.table(found)


def _copy_h5ad(draft: Path, source: Path, made: Predictions) -> None:
    """Copy an AnnData file and write new columns of ``obs``; everything else stays as it is, byte by byte.

    The probabilities of all classes become an array of ``obsm``, with the names of its columns in ``uns``, because
    names of columns in such a file cannot have every sign that names of classes may have. Places on a map become the
    array ``X_poincare`` of ``obsm``, as scanpy calls embeddings.
    """
    anndata = need(source, "anndata", "pandas", "h5py")
    pandas = need(source, "pandas")
    io_of = need(source, "anndata.io")
    h5py = need(source, "h5py")
    cells = anndata.read_h5ad(source, backed="r")
    obs = cells.obs.copy()
    cells.file.close()
    for name, values in made.columns().items():
        plain = values if values.dtype.kind == "f" else pandas.Categorical(values.astype(str))
        obs[ADDED + name] = plain
    shutil.copyfile(source, draft)
    with h5py.File(draft, "r+") as file:
        io_of.write_elem(file, "obs", obs)
        arrays: list[tuple[str, str, Any]] = []
        if made.probabilities is not None:
            arrays.append(("obsm", ADDED + "probabilities", made.probabilities))
            arrays.append(("uns", ADDED + "classes", np.array(made.classes, dtype=object)))
        if made.places is not None:
            arrays.append(("obsm", OBSM_MAP, made.places))
        for group, key, values in arrays:
            if group not in file:
                io_of.write_elem(file, group, {})
            io_of.write_elem(file[group], key, values)

"""Reading a site's file ÷ the library that everybody reads such files with, in one run, each in a process of its own.

    python benchmarks/reading.py            # CSV, Parquet 10^6 x 30, .h5ad 10^4 x 2*10^4; writes results/reading.json
    python benchmarks/reading.py --quick    # a tenth of the rows, fewer repetitions; writes nothing
    python benchmarks/reading.py --json     # the last line is one JSON object (it always is; this prints nothing else)
    python benchmarks/reading.py --only csv|parquet|h5ad|many_cells

``time`` and ``memory`` are ours ÷ theirs: CPU seconds, the least of a few processes by turns, and the peak of the whole
process, in which everything is imported that either of them needs. ``many_cells`` (not with --quick) reads 100,000
cells of 25,000 genes, 5 % filled, as sites by donor, looks for gaps and sets rows aside, and says what memory it took.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import measure_parts, parser

TYPES = np.array(["alpha", "beta", "gamma"])
GOALS = {"csv": (1.2, 1.5), "parquet": (1.2, 1.5), "h5ad": (1.5, 1.5)}


def write_rows(file: Path, rows: int, columns: int = 30) -> None:
    """Write a table of normal numbers and a label, as CSV or Parquet."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    numbers = {f"c{i}": rng.standard_normal(rows) for i in range(columns)}
    table = pa.table({**numbers, "label": TYPES[rng.integers(0, 3, rows)]})
    write = csv.write_csv if file.suffix == ".csv" else parquet.write_table
    write(table, str(file))


def write_cells(file: Path, cells: int, genes: int, filled: float = 0.05) -> None:
    """Write counts with ``filled`` of the cells above 0, a label and a donor, as .h5ad."""
    import anndata
    import pandas
    from scipy.sparse import csr_matrix

    rng, each = np.random.default_rng(0), int(filled * genes)
    step = genes // each  # one gene of each stretch: sorted and distinct without drawing all
    places = np.arange(each, dtype=np.int32) * step + rng.integers(0, step, (cells, each), dtype=np.int32)
    counts = (1 + rng.poisson(1.0, (cells, each))).astype(np.float32)
    ends = np.arange(cells + 1, dtype=np.int32) * each
    X = csr_matrix((counts.ravel(), places.ravel(), ends), shape=(cells, genes))
    names = [f"cell-{i}" for i in range(cells)]
    obs = pandas.DataFrame({"label": TYPES[rng.integers(0, 3, cells)], "donor": np.arange(cells) % 8}, index=names)
    obs["donor"] = obs["donor"].astype(str)
    anndata.AnnData(X, obs=obs, var=pandas.DataFrame(index=[f"g{i}" for i in range(genes)])).write_h5ad(file)


def theirs(file: Path) -> Any:
    """Read a file with pandas or anndata."""
    import anndata
    import pandas

    read = {".csv": pandas.read_csv, ".parquet": pandas.read_parquet, ".h5ad": anndata.read_h5ad}
    return read[file.suffix](file)


def ours(file: Path) -> Any:
    """Read a file as a site."""
    import fedgeom

    return fedgeom.read_site(file, label="label")


def by_donor(file: Path) -> Any:
    """Read a file as sites, look for gaps and set rows aside."""
    import fedgeom
    from fedgeom.data.readers import read_sites_from
    from fedgeom.data.validation import check_finite

    sites = read_sites_from(file, by="donor", label="label")
    for site in sites:
        check_finite(site)
    return [fedgeom.holdout(site, 0.3) for site in sites]


def measure(work: str, file: Path) -> None:
    """Do one reading in this process, and print what it took."""
    import resource

    import anndata  # noqa: F401 - imported before the clock starts
    import pandas  # noqa: F401
    from pyarrow import csv, parquet  # noqa: F401

    import fedgeom
    from fedgeom.data import readers  # noqa: F401

    assert fedgeom.read_site
    began = time.process_time()
    kept = WORKS[work](file)
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert kept is not None
    print(json.dumps({"cpu_s": took, "mb": peak}))


def in_a_process(work: str, file: Path) -> dict[str, float]:
    """Measure in a new process."""
    command = [sys.executable, __file__, "--measure", work, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(write: Callable[[Path], None], name: str, quick: bool) -> dict[str, float]:
    """Write a file, read it by turns, and return the ratios."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / name
        write(file)
        best: dict[str, dict[str, float]] = {}
        for _ in range(2 if quick else 5):
            for work in ("theirs", "ours"):
                found = in_a_process(work, file)
                best[work] = {key: min(found[key], best.get(work, found)[key]) for key in found}
    ratio = {key: best["ours"][key] / best["theirs"][key] for key in ("cpu_s", "mb")}
    figures = {f"{work}_{key}": value for work, both in best.items() for key, value in both.items()}
    return {"time": ratio["cpu_s"], "memory": ratio["mb"], **figures}


def csv(quick: bool) -> dict[str, float]:
    """Compare a CSV file with pandas."""
    return compared(lambda file: write_rows(file, 10**5 if quick else 10**6), "rows.csv", quick)


def parquet(quick: bool) -> dict[str, float]:
    """Compare a Parquet file with pandas."""
    return compared(lambda file: write_rows(file, 10**5 if quick else 10**6), "rows.parquet", quick)


def h5ad(quick: bool) -> dict[str, float]:
    """Compare an .h5ad file of sparse counts with anndata."""
    return compared(lambda file: write_cells(file, 10**3 if quick else 10**4, 2 * 10**4), "cells.h5ad", quick)


def many_cells(quick: bool) -> dict[str, float] | None:
    """Measure 100,000 cells of 25,000 genes on the way to a run; dense, they would take 18.6 GiB."""
    if quick:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "many.h5ad"
        subprocess.run([sys.executable, __file__, "--measure", "write_many", str(file)], check=True)
        return in_a_process("by_donor", file)


WORKS: dict[str, Callable[[Path], Any]] = {
    "theirs": theirs,
    "ours": ours,
    "by_donor": by_donor,
    "write_many": lambda file: [write_cells(file, 10**5, 25_000)],
}
PARTS: dict[str, Callable[[bool], Any]] = {"csv": csv, "parquet": parquet, "h5ad": h5ad, "many_cells": many_cells}


def main() -> None:
    """Measure, print, and keep the full results."""
    line = parser(__doc__, PARTS)
    line.add_argument("--measure", nargs=2, metavar=("WORK", "FILE"), help=argparse.SUPPRESS)
    options = line.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
        return
    goals = {name: f" (goal: time <= {most[0]}, memory <= {most[1]})" for name, most in GOALS.items()}
    print(json.dumps(measure_parts(options, PARTS, "reading", goals)))


if __name__ == "__main__":
    main()

"""What secure preparation costs ÷ scanpy or scikit-learn on the pooled table: CPU time, five sites; and memory.

    python benchmarks/preparation.py               # 10,000 cells × 5,000 genes; 20,000 and 100,000 patients
    python benchmarks/preparation.py --quick       # a tenth of the rows
    python benchmarks/preparation.py --memory      # one site of 100,000 cells × 25,000 genes: the peak of its process
    python benchmarks/preparation.py --only table "large table" map
    python benchmarks/preparation.py --json        # the last line is one JSON object

"secure" is a whole run up to the prepared rows: joining, agreeing on columns, all sums with keys and masks, for five
sites and the coordinator in one process; sites are rebuilt for every question, as on a network. The pooled side makes
the same steps on one table: scanpy where it is installed (normalize_total, log1p, highly_variable_genes, scale, pca),
else the plain run; scikit-learn (OneHotEncoder, SimpleImputer with indicators, StandardScaler) for the clinical table.
"map" is a whole run of `PoincareMap` with 200 landmarks, in CPU seconds, and how many sums the sites are asked for.
Results go to benchmarks/results/preparation.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.steps import Step
from fedgeom.preparation import PCA, Impute, LogCounts, OneHot, Scale, SelectVariable, fit_plain
from fedgeom.protocols.cohort import join

RESULTS = Path(__file__).resolve().parent / "results" / "preparation.json"
SITES = 5
COUNTS: tuple[Step, ...] = (LogCounts(), SelectVariable(2000), Scale(max_value=10.0), PCA(50))
TABLE: tuple[Step, ...] = (OneHot(), Impute(strategy="mean"), Scale())
WORDS = ("a", "b", "c", "d")
DENSITY = 0.06
"""The share of a cell's genes that are found in it."""


def cells(rows: int, genes: int, seed: int = 0) -> Any:
    """Return counts, (rows, genes), sparse, f4."""
    rng = np.random.default_rng(seed)
    per_row = max(1, int(DENSITY * genes))
    popular = rng.gamma(0.5, 1.0, genes) + 0.05
    indices = rng.choice(genes, (rows, per_row), p=popular / popular.sum()).astype(np.int32)
    data = rng.integers(1, 8, indices.size).astype(np.float32)
    found = sp.csr_array((data, indices.ravel(), np.arange(0, indices.size + 1, per_row)), shape=(rows, genes))
    found.sum_duplicates()
    return found


def many_cells(rows: int, genes: int, seed: int = 0) -> Any:
    """Return counts, (rows, genes), sparse, f4: a row has one gene of each of as many ranges as it has genes."""
    rng = np.random.default_rng(seed)
    per_row = max(1, int(DENSITY * genes))
    level = (1 + 8 * rng.gamma(0.5, 1.0, genes)).astype(np.float32)
    data = np.empty(rows * per_row, np.float32)
    indices = np.empty(rows * per_row, np.int32)
    for at in range(0, rows, 1000):
        some = slice(at * per_row, min(at + 1000, rows) * per_row)
        place = (np.arange(per_row) + rng.random((min(at + 1000, rows) - at, per_row))) * (genes / per_row)
        indices[some] = np.minimum(place, genes - 1).astype(np.int32).ravel()
        data[some] = np.ceil(level[indices[some]] * rng.random(len(indices[some]), np.float32))
    return sp.csr_array((data, indices, np.arange(0, len(data) + 1, per_row)), shape=(rows, genes))


def dealt(X: Any, **options: Any) -> list[fedgeom.SiteData]:
    """Deal rows to five sites."""
    y = np.arange(X.shape[0]) % 2
    return [fedgeom.SiteData(f"s{at}", X[at::SITES], y[at::SITES].astype(str), **options) for at in range(SITES)]


def prepare_securely(steps: tuple[Step, ...], sites: list[fedgeom.SiteData]) -> None:
    """Hold a run as far as the prepared rows, and have every site prepare its own."""
    method = fedgeom.Ridge(features="linear", prepare=steps)
    engine = EmbeddedEngine(method, sites)
    run = bytes(32)
    join(Coordinator(engine, run=run, method=method.name, roster=engine.roster), method)
    for name, runner in engine.runners.items():
        assert runner.restore(run, engine.memories[name]).data.shape[0]


def scanpy_counts(X: Any) -> None:
    """Make the same steps with scanpy."""
    import anndata
    import scanpy

    pooled = anndata.AnnData(sp.csr_matrix(X))
    scanpy.pp.normalize_total(pooled)
    scanpy.pp.log1p(pooled)
    scanpy.pp.highly_variable_genes(pooled, n_top_genes=2000)
    pooled = pooled[:, pooled.var["highly_variable"]].copy()
    scanpy.pp.scale(pooled, max_value=10)
    scanpy.pp.pca(pooled, n_comps=50)


def sklearn_table(X: Any) -> None:
    """Make the same steps with scikit-learn."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words = np.array([*WORDS, "missing"], object)[np.nan_to_num(X[:, -1:], nan=4).astype(int)]
    hot = OneHotEncoder(sparse_output=False, min_frequency=10).fit_transform(words)
    filled = SimpleImputer(add_indicator=True).fit_transform(X[:, :-1])
    StandardScaler().fit_transform(np.column_stack([filled, hot]))


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of some work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compare_counts(rows: int, genes: int) -> dict[str, Any]:
    """Return seconds and the ratio for gene counts."""
    X = cells(rows, genes)
    names = tuple(f"g{at}" for at in range(genes))
    rival = scanpy_counts if importlib.util.find_spec("scanpy") else None
    if rival is not None:
        rival(X[:500])  # what is compiled on first use is not counted
    pooled = [fedgeom.SiteData("all", X, np.zeros(rows), columns=names)]
    return {"rows": rows, "columns": genes, "rival": "scanpy" if rival else "plain run"} | _ratio(
        lambda: prepare_securely(COUNTS, dealt(X, columns=names)),
        lambda: rival(X) if rival else fit_plain(COUNTS, pooled).transform(pooled[0]),
        times=1,
    )


def compare_table(patients: int) -> dict[str, Any]:
    """Return seconds and the ratio for a clinical table."""
    rng = np.random.default_rng(0)
    T = np.column_stack([rng.normal(size=(patients, 39)), rng.integers(0, 4, patients)])
    T[rng.random(T.shape) < 0.1] = np.nan
    names = (*(f"c{at}" for at in range(39)), "word")
    sites = dealt(T, columns=names, categories={"word": WORDS})
    sklearn_table(T[:100])
    return {"rows": patients, "columns": 40, "rival": "scikit-learn"} | _ratio(
        lambda: prepare_securely(TABLE, sites), lambda: sklearn_table(T), times=5
    )


def measure_map(rows: int) -> dict[str, Any]:
    """Return the CPU seconds of a joint map, and the number of its sums."""
    rng = np.random.default_rng(0)
    shrink = np.sqrt(1 + np.arange(50))
    centres = 3 * rng.normal(size=(12, 50)) / shrink
    sites = dealt(centres[rng.integers(12, size=rows)] + rng.normal(size=(rows, 50)) / shrink)
    began = time.process_time()
    run = fedgeom.run(fedgeom.PoincareMap(n_landmarks=200), sites)
    spent = time.process_time() - began
    sums = sum(entry.kind == "sum.masked" and entry.site == "s0" for entry in run.ledger)
    shape = {"rows": rows, "columns": 50, "landmarks": len(run.model.landmarks)}
    return shape | {"sums": sums, "secure": round(spent, 2)}


def _ratio(ours: Callable[[], Any], theirs: Callable[[], Any], times: int) -> dict[str, float]:
    """Return the least CPU seconds of both over some times, and their ratio."""
    both = [(seconds(ours), seconds(theirs)) for _ in range(times)]
    here, there = (min(one) for one in zip(*both, strict=True))
    return {"secure": round(here, 3), "pooled": round(there, 3), "ratio": round(here / there, 2)}


def memory(rows: int, genes: int) -> dict[str, Any]:
    """Return the peak of a process that does all that one site does with so many cells."""
    X = many_cells(rows, genes)
    site = fedgeom.SiteData("s", X, np.zeros(X.shape[0]), columns=tuple(f"g{at}" for at in range(genes)))
    own = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**30
    made = fit_plain(COUNTS, [site])
    shape = made.transform(replace(site)).shape
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"rows": rows, "columns": genes, "table_gib": round(own, 2), "peak_gib": round(peak, 2), "out": shape}


def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("quick", "memory", "json"):
        options.add_argument(f"--{name}", action="store_true")
    parts = ["counts", "table", "large table", "map"]
    options.add_argument("--only", nargs="+", choices=parts, default=parts)
    given = options.parse_args()
    if given.memory:
        found: dict[str, Any] = {"memory": memory(10_000 if given.quick else 100_000, 25_000)}
    else:
        share = 10 if given.quick else 1
        found = {
            "counts": lambda: compare_counts(10_000 // share, 5000 // min(share, 2)),
            "table": lambda: compare_table(20_000 // share),
            "large table": lambda: compare_table(100_000 // share),
            "map": lambda: measure_map(100_000 // share),
        }
        found = {name: work() for name, work in found.items() if name in given.only}
    for name, one in found.items():
        print(name, one)
    if not given.quick:
        before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
        RESULTS.write_text(json.dumps(before | found, indent=1) + "\n", encoding="utf-8")
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()

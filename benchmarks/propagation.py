"""Label propagation on growing graphs: dense inverse, conjugate gradients, sparse factorisation, anchors.

    python benchmarks/propagation.py            # 1,000 to 50,000 points; results/propagation.json, docs/xclp.md
    python benchmarks/propagation.py --quick    # up to 5,000 points; writes nothing
    python benchmarks/propagation.py --json     # the last line is one JSON object
    python benchmarks/propagation.py --only 10000

Points are drawn around ten centres on a curved surface in 20 dimensions and joined to 10 neighbours. Each measurement
runs in a process of its own, so that the largest resident memory is its own too; ``solve_gb`` is what comes on top of
the process that only holds the graph. "10 classes" solves for ten label columns (which a coordinator that knew the
labels could do), "columns" for the influence columns of 100 (or 1,000) labelled points, which is what the secure method
needs. Agreement is the largest absolute difference to the dense inverse, or where that does not fit the residual of the
equation; more than 1e-8 is an error. Set OMP_NUM_THREADS before; ``seconds`` are wall clock, ``cpu_s`` those of the
process.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep, parser, read

SIZES = (1_000, 5_000, 10_000, 50_000)
DENSE_UP_TO = 10_000
LU_UP_TO = 10_000
COLUMNS = 100
MANY_COLUMNS = 1_000
WITHIN = 1e-8
OURS, PAPERS = 0.95, 0.99
L = 1024
DOCS = Path(__file__).parents[1] / "docs" / "xclp.md"
BEGIN, END = "<!-- propagation: made by the command -->", "<!-- end -->"


def points(n: int) -> tuple[Any, Any]:
    """Draw labelled points."""
    rng = np.random.default_rng(n)
    y = rng.integers(0, 10, n)
    centres = rng.normal(size=(10, 6))
    low = 2 * centres[y] + rng.normal(size=(n, 6))
    X = np.tanh(low @ rng.normal(size=(6, 20)) / 2) + 0.1 * rng.normal(size=(n, 20))
    return X, y


def neighbour_graph(n: int) -> tuple[Any, float, Any]:
    """Hash, compare and join, tile by tile; return the normalised graph, the seconds, and the labels."""
    from fedgeom.geometry.graphs.knn import knn_graph, normalise
    from fedgeom.geometry.graphs.lsh import cosine_from_hamming, hamming, hash_bits

    X, y = points(n)
    began = time.perf_counter()
    bits, tile = hash_bits(X, bytes(32), L), 2048
    tiles = (
        (i, j, cosine_from_hamming(hamming(bits[i : i + tile], bits[j : j + tile], L), L))
        for i in range(0, n, tile)
        for j in range(i, n, tile)
    )
    W = normalise(knn_graph(tiles, 10, n=n, power=8))
    return W, time.perf_counter() - began, y


def label_columns(n: int, y: Any, count: int = COLUMNS) -> tuple[Any, Any]:
    """Show the labels of some points; return where, and the label matrix."""
    labelled = np.sort(np.random.default_rng(1).permutation(n)[:count])
    Y = np.zeros((n, 10))
    Y[labelled, y[labelled]] = 1.0
    return labelled, Y


def _measure(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    cpu = time.process_time()
    out = work()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return out, {
        "seconds": round(seconds, 3),
        "cpu_s": round(cpu, 3),
        "solve_gb": round((peak - before) / 2**20, 3),
        "peak_gb": round(peak / 2**20, 3),
    }


def _dense(W: Any, alpha: float) -> Any:
    return np.linalg.inv(np.eye(W.shape[0]) - alpha * W.toarray())


def part(kind: str, file: str, n: int, alpha: float) -> dict[str, float]:
    """Measure one way to solve, on the graph in a file."""
    import scipy.sparse as sp

    from fedgeom.geometry.graphs.propagation import influence_columns, propagate

    W = sp.csr_array(sp.load_npz(file))
    labelled, Y = label_columns(n, points(n)[1], MANY_COLUMNS if "1000" in kind else COLUMNS)
    if kind == "dense":
        S, figures = _measure(lambda: _dense(W, alpha))
        np.save(file + ".columns.npy", S[:, labelled])
        return figures
    name, *_, what = kind.split()
    if what == "classes":
        Z, figures = _measure(lambda: propagate(W, alpha, Y, solver=name))  # type: ignore[arg-type]
        return figures | {"residual": float(np.abs(Z - alpha * (W @ Z) - Y).max())}
    S, figures = _measure(lambda: influence_columns(W, alpha, labelled, solver=name))  # type: ignore[arg-type]
    worst = 0.0
    for first in range(0, len(labelled), COLUMNS):  # the check must not be what takes the memory
        block = S[:, first : first + COLUMNS]
        rest = block - alpha * (W @ block)
        rest[labelled[first : first + COLUMNS], np.arange(block.shape[1])] -= 1.0
        worst = max(worst, float(np.abs(rest).max()))
    figures["residual"] = worst
    dense = Path(file + ".columns.npy")
    if dense.exists():
        figures["difference_to_dense"] = float(np.abs(S - np.load(dense)).max())
    if max(worst, figures.get("difference_to_dense", 0.0)) > WITHIN:
        raise SystemExit(f"{kind} at n = {n} is off by more than {WITHIN}: {figures}")
    return figures


def anchors(n: int) -> dict[str, float]:
    """Measure the way through 300 anchors, fitting included, and how often both name the same class."""
    from papers.xclp.plain import plain

    X, y = points(n)
    labelled, _ = label_columns(n, y)
    shown = np.full(n, -1)
    shown[labelled] = y[labelled]
    found, figures = _measure(lambda: plain([(X, shown)], graph="anchors"))
    return figures | {"accuracy": round(float(np.mean(found.sites[0].codes == y)), 4)}


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a fresh process, so that peaks of memory do not add up."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def _build(n: int, file: str) -> dict[str, float]:
    import scipy.sparse as sp

    (W, seconds, _), figures = _measure(lambda: neighbour_graph(n))
    sp.save_npz(file, sp.csr_matrix(W))
    kept = {"cpu_s": figures["cpu_s"], "peak_gb": figures["peak_gb"]}
    return {"seconds": round(seconds, 2), **kept, "edges": int(W.nnz)}


def measure(n: int, folder: str) -> dict[str, Any]:
    """Measure everything that fits at one size."""
    file = f"{folder}/graph{n}.npz"
    row: dict[str, Any] = {"graph": _alone(_build, n, file)}
    for alpha in (OURS, PAPERS):
        ways = ["dense"] if n <= (DENSE_UP_TO if alpha == OURS else 5_000) else []  # minutes, for one figure more
        ways += ["cg classes", "cg columns"]
        ways += ["lu classes", "lu columns"] if n <= LU_UP_TO else []
        for kind in ways:
            row[f"{kind}, alpha {alpha}"] = _alone(part, kind, file, n, alpha)
        if n > DENSE_UP_TO and alpha == OURS:
            row[f"cg 1000 columns, alpha {alpha}"] = _alone(part, "cg 1000 columns", file, n, alpha)
        Path(file + ".columns.npy").unlink(missing_ok=True)
    row["anchors"] = _alone(anchors, n)
    return row


def table(result: dict[str, Any]) -> str:
    """Write the figures for our α as a table: what a run does; what it is compared with stays in the results."""
    lines = [
        "| points | what | CPU s | memory of the process, GB | off by |",
        "|---|---|---|---|---|",
    ]
    ways = {
        "graph": "hash, compare in the clear, join to 10 neighbours",
        "cg columns, alpha 0.95": "conjugate gradients, 100 columns",
        "anchors": "through 300 anchors, all of it",
    }
    for n, row in result.items():
        for key, name in ways.items():
            if key in row:
                f = row[key]
                far = f.get("difference_to_dense", f.get("residual"))
                what = "from the inverse" if "difference_to_dense" in f else "residual"
                shown = "–" if far is None else f"{far:.0e}, {what}"
                lines.append(f"| {int(n):,} | {name} | {f['cpu_s']:.2f} | {f['peak_gb']:.2f} | {shown} |")
    return "\n".join(lines)


def write_docs(result: dict[str, Any]) -> None:
    """Put the table between its marks in docs/xclp.md."""
    before, rest = DOCS.read_text(encoding="utf-8").split(BEGIN)
    DOCS.write_text(f"{before}{BEGIN}\n{table(result)}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def main() -> None:
    """Measure, print, write."""
    import tempfile

    line = parser(__doc__)
    line.add_argument("--only", type=int, choices=SIZES)
    options = line.parse_args()
    sizes = [options.only] if options.only else [n for n in SIZES if not options.quick or n <= 5_000]
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            result[str(n)] = measure(n, folder)
            print(n)
            for name, figures in result[str(n)].items():
                print(f"  {name:26} {json.dumps(figures)}", flush=True)
    if not options.quick:
        kept = read("propagation") | result
        ordered = {str(n): kept[str(n)] for n in SIZES if str(n) in kept}
        keep("propagation", ordered)
        write_docs(ordered)
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()

"""fedgeom beside what one would take instead: the same job, each in an environment and processes of its own.

    python benchmarks/peers.py                     # all jobs, in turns; writes results/peers.json
    python benchmarks/peers.py --only training     # one job: training, table or cells
    python benchmarks/peers.py --quick --turns 1   # few rows, once; writes nothing

The programs are in benchmarks/beside/. For each library an environment is made in build/peers/ by pip; where that
fails, or a program does, its row says why. A turn runs every program once. CPU seconds are of a program and all
processes that it starts, also those that it leaves to others (they carry its mark in their environment), from start to
end: imports, workers and all. Memory is their peak together, shared pages counted once. Each has one numerical thread.
"""

from __future__ import annotations

import ast
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import measure_parts, parser

from fedgeom.data.datasets import data_folder, load_set
from fedgeom.partition import Dirichlet

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "beside"
BUILD = HERE.parent / "build" / "peers"
MARK = "PEERS_MARK"
TICKS = os.sysconf("SC_CLK_TCK")
LIMIT_S = 3600.0
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Peer:
    """One row: a program, what it is given, and what pip installs for it; nothing for what runs beside fedgeom."""

    program: str
    given: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Other files that one writes for it."""


TRAINING = {
    "fedgeom, secure": Peer("fedgeom_job", ("secure",)),
    "fedgeom, open": Peer("fedgeom_job", ("open",)),
    "plain loop": Peer("plain"),
    "pfl-research": Peer("pfl_research", needs=("pfl==0.6.0", TORCH)),
    "Flower on Ray": Peer("flower", needs=("flwr[simulation]==1.41.0", TORCH)),
    "NVFlare simulator": Peer("flare", needs=("nvflare[PT]==2.9.0", TORCH), also=("flare_client",)),
}
TABLE = {
    "fedgeom Ridge": Peer("table_fedgeom"),
    "scikit-learn ridge, pooled": Peer("table_sklearn", ("ridge",), ("scikit-learn==1.9.1",)),
    "scikit-learn logistic, pooled": Peer("table_sklearn", ("logistic",), ("scikit-learn==1.9.1",)),
}
CELLS = {
    "fedgeom Ridge": Peer("cells_fedgeom"),
    "scanpy and logistic, pooled": Peer("cells_scanpy", needs=("scanpy==1.11.5",)),
}


def lines(peer: Peer) -> int:
    """Count the lines one writes: no blank ones, comments or docstrings."""
    count = 0
    for name in (peer.program, *peer.also):
        source = (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")
        docs = {
            line
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        code = enumerate(source.splitlines(), start=1)
        count += sum(at not in docs and bool(text.split("#")[0].strip()) for at, text in code)
    return count


def python_of(peer: Peer) -> Path:
    """Return the Python of a peer's environment, which is made if it is not there."""
    if not peer.needs:
        return Path(sys.executable)
    folder = BUILD / peer.needs[0].split("==")[0].split("[")[0]
    found = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        limits = str(HERE.parent / "constraints.txt")
        command = [str(found), "-m", "pip", "install", "--quiet", "-c", limits, *peer.needs]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pip: {last_line(done.stderr)}")
        (folder / "ready").touch()
    return found


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing was said")[:300]


def marked(mark: str) -> Iterator[Path]:
    """Yield the processes that carry a mark, as folders of /proc."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield folder
            except OSError:  # it has ended, or is somebody else's
                continue


def seen(folder: Path) -> tuple[str, float, float]:
    """Return who a process is, its CPU seconds, and the MB that are its share of memory."""
    parts = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    memory = next(
        (line for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:")), "Pss: 0"
    )
    return f"{folder.name} {parts[19]}", (int(parts[11]) + int(parts[12])) / TICKS, int(memory.split()[1]) / 1024


def measured(peer: Peer, settings: dict[str, str]) -> dict[str, Any]:
    """Run a program to its end, and return its CPU seconds, wall seconds, peak memory and what it says."""
    mark = secrets.token_hex(8)
    environment = os.environ | settings | {MARK: mark, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PROGRAMS), str(HERE.parent / "src")])
    environment |= {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "FLWR_TELEMETRY_ENABLED": "0"}
    cpu: dict[str, float] = {}
    most, began, before = 0.0, time.monotonic(), os.times()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as out:
        command = [str(python_of(peer)), str(PROGRAMS / f"{peer.program}.py"), *peer.given]
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=environment)
        while process.poll() is None and time.monotonic() - began < LIMIT_S:
            most = max(most, look(mark, cpu))
            time.sleep(0.5)
        if process.poll() is None:
            process.kill()
        process.wait()
        wall = time.monotonic() - began
        for left in marked(mark):  # what a simulator leaves behind would disturb the next
            os.kill(int(left.name), 9)
        out.seek(0)
        said = out.read()
    after = os.times()
    waited = after.children_user + after.children_system - before.children_user - before.children_system
    try:
        found = json.loads(next(line for line in reversed(said.splitlines()) if '{"accuracy"' in line))
    except (StopIteration, ValueError):
        return {"skipped": f"it ended with {process.returncode}: {last_line(said)}"}
    used = max(waited, sum(cpu.values()))  # short processes are missed by looking, orphans by waiting
    return {"cpu_s": round(used, 2), "wall_s": round(wall, 2), "peak_MB": round(most)} | found


def look(mark: str, cpu: dict[str, float]) -> float:
    """Note the CPU seconds of all marked processes, and return their memory in MB."""
    total = 0.0
    for folder in marked(mark):
        try:
            who, seconds, memory = seen(folder)
        except (OSError, IndexError):
            continue
        cpu[who] = seconds
        total += memory
    return total


def in_turns(name: str, peers: dict[str, Peer], settings: dict[str, str], turns: int) -> dict[str, Any]:
    """Run every program once a turn, and return for each its turns, the median, and the ratio of the first to it."""
    rows: dict[str, dict[str, Any]] = {peer: {"lines": lines(one), "turns": []} for peer, one in peers.items()}
    for _ in range(turns):
        for title, peer in peers.items():
            if "skipped" in rows[title]:
                continue
            try:
                found = measured(peer, settings)
            except (OSError, RuntimeError) as error:
                found = {"skipped": last_line(str(error))}
            print(f"{name}: {title}: {found}", file=sys.stderr, flush=True)
            if "skipped" in found:
                rows[title]["skipped"] = found["skipped"]
            else:
                rows[title]["turns"].append(found)
    for row in rows.values():
        if row["turns"]:
            row["cpu_s"] = float(np.median([turn["cpu_s"] for turn in row["turns"]]))
            row["peak_MB"] = float(np.median([turn["peak_MB"] for turn in row["turns"]]))
            row["accuracy"] = float(np.median([turn["accuracy"] for turn in row["turns"]]))
    first = next(iter(rows.values()))
    for row in rows.values():
        if row["turns"] and first["turns"]:
            pairs = zip(first["turns"], row["turns"], strict=False)
            row["ours_over_it"] = round(float(np.median([a["cpu_s"] / b["cpu_s"] for a, b in pairs])), 3)
    return rows


def images(path: Path, quick: bool) -> None:
    """Write Fashion-MNIST dealt to 20 clients, Dirichlet .5."""

    whole = load_set("fashion-mnist", n_sites=1)
    chosen = np.random.default_rng(0).permutation(len(whole.train[0]))[: 600 if quick else 3000]
    X = np.asarray(whole.train[0].X)[chosen].reshape(len(chosen), -1)
    y = as_numbers(whole.train[0].y[chosen])
    dealt = Dirichlet(alpha=0.5, min_rows=10).over(X, y, n_sites=20, seed=0)
    parts: dict[str, Any] = {}
    for at, site in enumerate(dealt.sites):
        parts |= {f"X{at}": np.asarray(site.X, np.uint8), f"y{at}": np.asarray(site.y, np.int64)}
    test = whole.test[0]
    rows = np.asarray(test.X, np.uint8).reshape(len(test), -1)
    np.savez(path, **parts, Xtest=rows, ytest=as_numbers(test.y))


def as_numbers(labels: Any) -> Any:
    """Number the classes in the order of their names."""
    return np.unique(np.asarray(labels).astype(str), return_inverse=True)[1].astype(np.int64)


def training(quick: bool, turns: int) -> dict[str, Any] | None:
    """FedAvg of a small ConvNet over 20 clients with 3,000 images."""
    if missing("fashion_mnist.npz"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.npz"
        images(path, quick)
        return in_turns("training", TRAINING, {"PEERS_JOB": str(path)}, turns)


def table(quick: bool, turns: int) -> dict[str, Any]:
    """A table of five sites with gaps."""
    rng = np.random.default_rng(0)
    count = 2000 if quick else 20_000
    X = rng.normal(size=(6 * count, 40)) * rng.gamma(2, 1, 40)
    y = (X / X.std(axis=0) @ rng.normal(size=40) + 2 * rng.normal(size=len(X)) > 0).astype(int)
    X[rng.random(X.shape) < 0.1] = np.nan
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        train, test = slice(0, 5 * count), slice(5 * count, None)
        np.savez(path, X=X[train], y=y[train], site=np.arange(5 * count) % 5, X_test=X[test], y_test=y[test])
        return in_turns("table", TABLE, {"PEERS_TABLE": str(path)}, turns)


def missing(file: str) -> bool:
    """Say where a file of data is not there."""
    folder = data_folder()
    there = folder is not None and (folder / file).is_file()
    if not there:
        print(f"left out: {file} is not in FEDGEOM_DATA", file=sys.stderr)
    return not there


def cells(quick: bool, turns: int) -> dict[str, Any] | None:
    """Blood cells of eight donors, raw counts (Kang et al. 2018)."""
    file = "kang_pbmc_8donors.npz"
    if missing(file):
        return None
    import anndata  # the extra bio
    import pandas as pd
    from scipy import sparse

    z = np.load(str(data_folder() / file))  # type: ignore[operator]
    counts = sparse.csr_matrix((z["X_data"], z["X_indices"], z["X_indptr"]), shape=tuple(z["X_shape"]))
    known = np.flatnonzero(z["y"] >= 0)
    rows = np.random.default_rng(0).permutation(known)[: 1500 if quick else 10_000]
    genes = np.sort(np.argsort(-counts.getnnz(axis=0), kind="stable")[: 500 if quick else 5000])
    obs = pd.DataFrame({"cell_type": z["class_names"][z["y"][rows]], "donor": z["donor_names"][z["donor"][rows]]})
    obs["test"] = np.random.default_rng(1).random(len(rows)) < 0.25
    obs.index = [f"cell-{at}" for at in range(len(rows))]
    made = anndata.AnnData(
        counts[rows][:, genes].astype(np.float32), obs=obs, var=pd.DataFrame(index=z["gene_names"][genes])
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.h5ad"
        made.write_h5ad(path)
        return in_turns("cells", CELLS, {"PEERS_CELLS": str(path)}, turns)


PARTS = {"training": training, "table": table, "cells": cells}


def main() -> None:
    """Measure as the command line says."""
    made = parser(__doc__, PARTS)
    made.add_argument("--turns", type=int, default=3, help="how often every program is run")
    options = made.parse_args()
    parts = {name: lambda quick, one=one: one(quick, options.turns) for name, one in PARTS.items()}
    print(json.dumps(measure_parts(options, parts, "peers"), ensure_ascii=False))


if __name__ == "__main__":
    main()

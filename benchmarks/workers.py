"""Simulated sites answered for by two processes ÷ by one: `fedgeom.run(..., n_jobs=2)`.

    python benchmarks/workers.py            # training, hulls and XCLP over pairs; writes results/workers.json
    python benchmarks/workers.py --quick    # small sizes; writes nothing
    python benchmarks/workers.py --only training|hulls|xclp

``wall`` is the ratio of wall times, which means something on a quiet machine with two cores only. ``cpu`` is what it
comes to where every process has a core of its own: the CPU seconds of this process and of the worker that had most to
do, one after the other although they overlap in part, ÷ those of one process for all. ``coordinator`` is this process's
part of that: what the coordinator does, which no worker takes from it. Both runs must send the same kinds of messages
with as many bytes in every step; that is checked. With more than 48 sites, who writes to whom is drawn.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import main

import fedgeom
from fedgeom.methods.hulls.core import forget_hulls

leave = os._exit


def measure(method: Any, sites: list[fedgeom.SiteData]) -> dict[str, Any]:
    """Hold a run with one process and with two workers."""
    seconds: dict[int, tuple[float, float]] = {}
    sent, own = {}, {}
    for jobs in (1, 2):
        forget_hulls()
        with tempfile.TemporaryDirectory() as folder:

            def told(code: int, folder: str = folder) -> None:
                """Leave word of a worker's CPU seconds when it ends."""
                Path(folder, str(os.getpid())).write_text(str(time.process_time()), encoding="utf-8")
                leave(code)

            os._exit = told  # type: ignore[assignment]
            wall, began = time.perf_counter(), time.process_time()
            run = fedgeom.run(method, sites, n_jobs=jobs)
            own[jobs] = time.process_time() - began
            seconds[jobs] = (time.perf_counter() - wall, own[jobs])
            os._exit = leave
            spent = [float(file.read_text(encoding="utf-8")) for file in Path(folder).iterdir()]
        seconds[jobs] = (seconds[jobs][0], seconds[jobs][1] + max(spent, default=0.0))
        sent[jobs] = sorted((one.step, one.kind, one.bytes, one.received) for one in run.ledger)
    return {
        "wall": seconds[2][0] / seconds[1][0],
        "cpu": seconds[2][1] / seconds[1][1],
        "coordinator": own[2] / own[1],
        "serial_cpu_s": seconds[1][1],
        "serial_wall_s": seconds[1][0],
        "same_messages": sent[1] == sent[2],
    }


def training(quick: bool) -> dict[str, Any]:
    """Measure FedAvg with the default learner, 20 sites."""
    rng, rows = np.random.default_rng(0), 20 * (100 if quick else 600)
    X = rng.normal(size=(rows, 64))
    y = (X @ rng.normal(size=(64, 5))).argmax(axis=1).astype(str)
    sites = fedgeom.split(X, y, n_sites=20)
    fedgeom.run(fedgeom.FedAvg(rounds=1), [site.some(40) for site in sites[:3]])
    return measure(fedgeom.FedAvg(rounds=3 if quick else 10), sites)


def hulls(quick: bool) -> dict[str, Any]:
    """Measure the one-shot protocol, 50 sites of which each has many rows."""
    from fedgeom.geometry.hyperbolic.sampling import labelled_disc

    drawn = labelled_disc(50 * (400 if quick else 4000), 0.95, 0.1, np.random.default_rng(0), reference_norm=0.3)
    sites = fedgeom.split(drawn.X, drawn.y, 50)
    method = fedgeom.Hulls(epsilon=0.1)
    fedgeom.run(method, [site.some(40) for site in sites[:3]])
    return measure(method, sites)


def xclp(quick: bool) -> dict[str, Any]:
    """Measure XCLP over pairs, 4 sites: six pairs."""
    rng, count = np.random.default_rng(1), 80 if quick else 240
    kinds = rng.integers(0, 2, count)
    X = rng.normal(size=(count, 20)) + 2 * np.eye(20)[kinds]
    known = np.where(rng.random(count) < 0.2, kinds.astype(str), "")
    return measure(fedgeom.XCLP(), [fedgeom.SiteData(f"s{k}", X[k::4], known[k::4]) for k in range(4)])


PARTS = {"training": training, "hulls": hulls, "xclp": xclp}


if __name__ == "__main__":
    main(__doc__, PARTS, "workers")

"""Simulated sites answered for by two processes ÷ by one: `fedgeom.run(..., n_jobs=2)`.

    python benchmarks/workers.py            # training, hulls and XCLP over pairs; writes results/workers.json
    python benchmarks/workers.py --quick    # small sizes; writes nothing
    python benchmarks/workers.py --only limit|training|hulls|hulls_many|xclp

One process and two take turns, three times; the least of each counts. ``wall`` is the ratio of wall times, which means
something on a quiet machine with two cores only. ``limit`` is what that machine gives: two bare processes that make the
same fits, half of them each, ÷ one that makes all, nothing else beside. ``cpu`` is what it comes to where every process
has a core of its own: the CPU seconds of this process and of the worker that had most to do, one after the other
although they overlap in part, ÷ those of one process for all. ``coordinator`` is this process's part of that: what the
coordinator does, which no worker takes from it. Both runs must send the same kinds of messages with as many bytes in
every step; that is checked. With more than 48 sites, who writes to whom is drawn.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import main

import fedgeom
from fedgeom import memo
from fedgeom.methods.hulls.core import class_hulls
from fedgeom.methods.iterative.site import generator

leave = os._exit


TURNS = 3


def measure(method: Any, sites: list[fedgeom.SiteData]) -> dict[str, Any]:
    """Hold runs with one process and with two workers in turn."""
    least: dict[int, Held] = {}
    for _ in range(TURNS):
        for jobs in (1, 2):
            one = hold(method, sites, jobs)
            if jobs not in least or one.wall < least[jobs].wall:
                least[jobs] = one
    one, two = least[1], least[2]
    return {
        "wall": two.wall / one.wall,
        "cpu": (two.own + two.most) / one.own,
        "coordinator": two.own / one.own,
        "serial_cpu_s": one.own,
        "serial_wall_s": one.wall,
        "same_messages": one.sent == two.sent,
    }


@dataclass
class Held:
    """A run: its wall time, the CPU seconds of this process and of the busiest worker, and what was sent."""

    wall: float
    own: float
    most: float
    sent: list[Any]


def hold(method: Any, sites: list[fedgeom.SiteData], jobs: int) -> Held:
    """Hold a run."""
    memo.clear(class_hulls)
    with tempfile.TemporaryDirectory() as folder:

        def told(code: int) -> None:
            """Leave word of a worker's CPU seconds when it ends."""
            Path(folder, str(os.getpid())).write_text(str(time.process_time()), encoding="utf-8")
            leave(code)

        os._exit = told  # type: ignore[assignment]
        wall, began = time.perf_counter(), time.process_time()
        run = fedgeom.run(method, sites, n_jobs=jobs)
        own, wall = time.process_time() - began, time.perf_counter() - wall
        os._exit = leave
        spent = [float(file.read_text(encoding="utf-8")) for file in Path(folder).iterdir()]
    sent = sorted((one.step, one.kind, one.bytes, one.received) for one in run.ledger)
    return Held(wall, own, max(spent, default=0.0), sent)


def limit(quick: bool) -> dict[str, Any]:
    """Measure the fits of `training` bare, by two forked processes ÷ by one; also the largest of all turns."""
    sites, method = _training_sites(quick), fedgeom.FedAvg()
    learner, effort = method.build_learner(), method.effort()
    tables = [(site.X, np.unique(site.y, return_inverse=True)[1]) for site in sites]

    def fits(of: int, share: int) -> None:
        for X, y in 3 * tables[share::of]:
            learner.fit(
                learner.start(64, 5, np.random.default_rng(0)), X, y, effort=effort, rng=generator(0, 0, "a")
            )

    def wall(processes: int) -> float:
        began, children = time.perf_counter(), []
        for share in range(processes):
            child = os.fork()
            if not child:
                fits(processes, share)
                leave(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return time.perf_counter() - began

    fits(10, 0)
    turns = [(wall(1), wall(2)) for _ in range(TURNS)]
    ratios = [two / one for one, two in turns]
    return {"wall": min(two for _, two in turns) / min(one for one, _ in turns), "turns": sorted(ratios)}


def _training_sites(quick: bool) -> list[fedgeom.SiteData]:
    rng, rows = np.random.default_rng(0), 20 * (100 if quick else 3000)
    X = rng.normal(size=(rows, 64))
    y = (X @ rng.normal(size=(64, 5))).argmax(axis=1).astype(str)
    return fedgeom.split(X, y, n_sites=20)


def training(quick: bool) -> dict[str, Any]:
    """Measure FedAvg with the default learner, 20 sites."""
    sites = _training_sites(quick)
    fedgeom.run(fedgeom.FedAvg(n_rounds=1), [site.some(40) for site in sites[:3]])
    return measure(fedgeom.FedAvg(n_rounds=3 if quick else 10), sites)


def hulls(quick: bool) -> dict[str, Any]:
    """Measure the one-shot protocol, 8 sites with very many rows: sites have most to do."""
    return _hulls(8, 20_000 if quick else 200_000)


def hulls_many(quick: bool) -> dict[str, Any]:
    """Measure the one-shot protocol, 50 sites: the coordinator has most to do, by itself."""
    return _hulls(50, 400 if quick else 4000)


def _hulls(n_sites: int, rows: int) -> dict[str, Any]:
    from fedgeom.geometry.hyperbolic.sampling import labelled_disc

    drawn = labelled_disc(n_sites * rows, 0.95, 0.1, np.random.default_rng(0), reference_norm=0.3)
    sites = fedgeom.split(drawn.X, drawn.y, n_sites)
    method = fedgeom.Hulls(epsilon=0.1)
    fedgeom.run(method, [site.some(40) for site in sites[:3]])
    return measure(method, sites)


def xclp(quick: bool) -> dict[str, Any]:
    """Measure XCLP over pairs, 4 sites: six pairs."""
    rng, count = np.random.default_rng(1), 80 if quick else 400
    kinds = rng.integers(0, 2, count)
    X = rng.normal(size=(count, 20)) + 2 * np.eye(20)[kinds]
    known = np.where(rng.random(count) < 0.2, kinds.astype(str), "")
    return measure(fedgeom.XCLP(), [fedgeom.SiteData(f"s{k}", X[k::4], known[k::4]) for k in range(4)])


PARTS = {"limit": limit, "training": training, "hulls": hulls, "hulls_many": hulls_many, "xclp": xclp}


if __name__ == "__main__":
    main(__doc__, PARTS, "workers")

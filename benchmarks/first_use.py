"""What one meets first, in CPU seconds of whole processes: a first run, a list, the demonstration; and large models.

    python benchmarks/first_use.py                 # everything; writes results/first_use.json
    python benchmarks/first_use.py --only large    # one part

Every program runs some times, and the least counts: others on the machine only add. "small" is a run of Moments over
four sites in a process that has had one before. "large" trains a network of 9.2 million parameters for one step at each
of 5 sites in 3 rounds, ours with secure sums and a plain loop that copies the module, in turns: CPU nanoseconds for a
parameter, site and round, and the peak of memory over what there was before, in copies of the model in float32.
"""

from __future__ import annotations

import copy
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import main

TINY = """
import numpy as np, fedgeom
X = np.random.default_rng(0).normal(size=(300, 5))
run = fedgeom.run({method}, fedgeom.split(X, (X[:, 0] > 0).astype(int), n_sites=3), seed=0)
run.model.predict(X)
"""
COMMAND = "import sys; from fedgeom.cli import app; sys.argv = ['fedgeom', *{words}]; app()"
PROGRAMS = {
    "import": "import fedgeom",
    "tiny Ridge": TINY.format(method="fedgeom.Ridge()"),
    "tiny FedAvg": TINY.format(method="fedgeom.FedAvg(n_rounds=2)"),
    "fedgeom methods moments": COMMAND.format(words=["methods", "moments"]),
    "fedgeom demo": COMMAND.format(words=["demo"]),
}
LARGE_SITES, LARGE_ROUNDS, WIDTH = 5, 3, 2770


def process_seconds(source: str, repeat: int) -> float:
    """Return the least CPU seconds of a program, with all processes that it starts."""
    found = []
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody compiles a package at every start
    for _ in range(repeat + 1):  # the first compiles
        before = os.times()
        subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, check=True)
        after = os.times()
        found.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return round(min(found[1:]), 3)


def programs(quick: bool) -> dict[str, float]:
    """Run each program."""
    return {name: process_seconds(source, 2 if quick else 5) for name, source in PROGRAMS.items()}


def small(quick: bool) -> dict[str, float]:
    """Run Moments over four sites, without and with rows kept aside."""
    X = np.random.default_rng(0).normal(size=(400, 8))
    sites = fedgeom.split(X, (X[:, 0] > 0).astype(int), n_sites=4)
    found = {}
    for name, holdout in (("run", None), ("with holdout", 0.25)):
        times = []
        for seed in range(5 if quick else 25):
            began = time.process_time()
            run = fedgeom.run(fedgeom.Moments(space="euclidean"), sites, seed=seed, holdout=holdout)
            times.append(time.process_time() - began)
        found[f"{name}, ms"] = round(1000 * min(times), 1)
        found[f"{name}, questions"] = len({entry.step for entry in run.ledger})
    return found


def module() -> Any:
    """Return a network of 9.2 million parameters."""
    import torch  # optional

    return torch.nn.Sequential(
        torch.nn.Linear(550, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, 2),
    )


def tables() -> list[fedgeom.SiteData]:
    """Return sites of 16 rows."""
    rng = np.random.default_rng(0)
    return [
        fedgeom.SiteData(f"s{at}", rng.normal(size=(16, 550)).astype(np.float32), np.arange(16) % 2)
        for at in range(LARGE_SITES)
    ]


def ours(sites: list[fedgeom.SiteData]) -> None:
    """Train with secure sums."""
    from fedgeom.extend import TorchLearner

    learner = TorchLearner("large", lambda columns, classes: module())
    method = fedgeom.FedAvg(learner=learner, n_rounds=LARGE_ROUNDS, steps=1, batch_size=16, scale="none")
    fedgeom.run(method, sites, seed=0)


def plain(sites: list[fedgeom.SiteData]) -> None:
    """Train as one writes it: a copy for each site, and the mean."""
    import torch

    net = module()
    for _ in range(LARGE_ROUNDS):
        total = {name: torch.zeros_like(value) for name, value in net.state_dict().items()}
        for site in sites:
            local = copy.deepcopy(net)
            steps = torch.optim.SGD(local.parameters(), 0.1)
            scores = local(torch.from_numpy(np.asarray(site.X, np.float32)))
            torch.nn.functional.cross_entropy(scores, torch.from_numpy(site.y)).backward()
            steps.step()
            for name, value in local.state_dict().items():
                total[name] += value / len(sites)
        net.load_state_dict(total)


def figures_of(job: Callable[[list[fedgeom.SiteData]], None]) -> dict[str, float]:
    """Return a job's CPU time and memory, in this process, which has done nothing before."""
    import torch

    torch.set_num_threads(1)
    sites = tables()
    model = module()
    count = sum(parameter.numel() for parameter in model.parameters())
    torch.nn.functional.cross_entropy(model(torch.zeros(16, 550)), torch.zeros(16, dtype=torch.int64)).backward()
    torch.optim.SGD(model.parameters(), 0.1).step()  # what torch imports at a first step
    del model
    rest = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    began = time.process_time()
    job(sites)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"ns": 1e9 * spent / count / LARGE_SITES / LARGE_ROUNDS, "copies": (peak - rest) / (4 * count)}


def large(quick: bool) -> dict[str, float]:
    """Let both take turns, each time in a process of its own."""
    found: dict[str, list[dict[str, float]]] = {"secure": [], "plain": []}
    for _ in range(1 if quick else 3):
        for name, job in (("secure", ours), ("plain", plain)):
            with get_context("spawn").Pool(1) as pool:
                found[name].append(pool.apply(figures_of, (job,)))
    least = {name: {key: min(one[key] for one in some) for key in some[0]} for name, some in found.items()}
    ratio = least["secure"]["ns"] / least["plain"]["ns"]
    return {"ratio": round(ratio, 2)} | {
        f"{name}, {key}": round(value, 2) for name, one in least.items() for key, value in one.items()
    }


if __name__ == "__main__":
    main(__doc__, {"programs": programs, "small": small, "large": large}, "first_use")

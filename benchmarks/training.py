"""Ratios for training networks, each taken in one run: ours ÷ the bare torch loop that takes the same steps.

    python benchmarks/training.py            # everything; writes results/training.json
    python benchmarks/training.py --quick    # fewer repetitions; writes nothing
    python benchmarks/training.py --json     # the last line is one JSON object

A round is one epoch at each of 20 sites with 600 images of 28 × 28 pixels, batches of 64, a small ConvNet. Times are
CPU seconds of this process. The sides of a ratio take turns, and the least time of each counts, so that a busy machine
disturbs all alike. "vmap" is one step of all 20 sites together (`torch.func.vmap`, a batch of 64 each) ÷ the same steps
one after the other, for the ConvNet and for a small MLP: what batching sites in a simulation would bring.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

import fedgeom
from fedgeom.methods.iterative import MLP, ConvNet, Linear, Network
from fedgeom.methods.iterative.networks.layers import BodyWithHead

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep, parser

SITES, ROWS, SHAPE, CLASSES, BATCH, RATE = 20, 600, (1, 28, 28), 10, 64, 0.05
NETWORK = ConvNet(channels=16)


def images() -> list[fedgeom.SiteData]:
    """Return sites of noise: what is in an image does not matter for time."""
    rng = np.random.default_rng(0)
    return [
        fedgeom.SiteData(f"site-{at:02d}", rng.random((ROWS, 784), np.float32), np.arange(ROWS) % CLASSES)
        for at in range(SITES)
    ]


def descend(module: torch.nn.Module, rows: torch.Tensor, labels: torch.Tensor, rng: np.random.Generator) -> None:
    """One epoch of plain steps, as one writes them."""
    steps = torch.optim.SGD(module.parameters(), RATE)
    order = torch.from_numpy(rng.permutation(len(rows)))
    for at in order.split(BATCH):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(module(rows[at]), labels[at]).backward()
        steps.step()


class Bare:
    """The least that a round can cost: one module, the steps, and the mean."""

    def __init__(self, sites: list[fedgeom.SiteData], *, copies: bool = False):
        """Keep the rows as tensors; ``copies``: a module for each site, as simulators have it."""
        self.data = [
            (torch.from_numpy(site.X.astype(np.float32)).view(-1, *SHAPE), torch.from_numpy(site.y))
            for site in sites
        ]
        self.module = BodyWithHead(NETWORK.build(SHAPE), Linear().build(NETWORK.width, CLASSES))
        self.copies = copies

    def round(self) -> float:
        """Return the CPU seconds of one round."""
        began = time.process_time()
        given = [p.detach().clone() for p in self.module.parameters()]
        total = [torch.zeros_like(p) for p in given]
        for at, (rows, labels) in enumerate(self.data):
            module = copy.deepcopy(self.module) if self.copies else self.module
            with torch.no_grad():
                for parameter, value in zip(module.parameters(), given, strict=True):
                    parameter.copy_(value)
            descend(module, rows, labels, np.random.default_rng(at))
            with torch.no_grad():
                for part, parameter in zip(total, module.parameters(), strict=True):
                    part.add_(parameter, alpha=1 / SITES)
        with torch.no_grad():
            for parameter, value in zip(self.module.parameters(), total, strict=True):
                parameter.copy_(value)
        return time.process_time() - began


def federated(sites: list[fedgeom.SiteData], rounds: int, *, secure: bool) -> tuple[float, float, int]:
    """Return the CPU seconds of the cheapest round, the bytes that a site sends for each parameter, and for none.

    A round is all that happens from its first question to the next round's; joining, once a run, is left out. The
    smallest masked vector of a run is that of the number of rows: a signature, a frame, and as many words as a model's
    has beside its parameters.
    """
    kind = "train.masked" if secure else "train.open"
    starts: dict[int, float] = {}

    def watch(event: Any) -> None:
        if event.kind == kind:
            starts.setdefault(event.step, time.process_time())

    rule = fedgeom.FedAvg(
        network=NETWORK,
        shape=SHAPE,
        n_rounds=rounds,
        epochs=1,
        batch_size=BATCH,
        learning_rate=RATE,
        secure=secure,
        scale="none",
    )
    run = fedgeom.run(rule, sites, watch=watch)
    masked = [entry.bytes for entry in run.ledger if entry.kind == "sum.masked"]
    each = (max(masked) - min(masked)) / run.model.parameters.size if secure else 0.0
    return (
        min(later - earlier for earlier, later in itertools.pairwise(starts.values())),
        each,
        min(masked, default=0),
    )


def batched(network: Network, shape: tuple[int, ...], repeat: int) -> float:
    """Return the CPU time of a step that all sites take at once ÷ that of the same steps one after the other."""
    modules = [BodyWithHead(network.build(shape), Linear().build(network.width, CLASSES)) for _ in range(SITES)]
    rows, labels = torch.randn(SITES, BATCH, *shape), torch.arange(SITES * BATCH).view(SITES, BATCH) % CLASSES
    stacked = {name: value.detach() for name, value in stack_module_state(modules)[0].items()}

    def loss(parameters: dict[str, torch.Tensor], some: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(functional_call(modules[0], parameters, (some,)), wanted)

    def together() -> None:
        slopes = vmap(grad(loss))(stacked, rows, labels)
        for name, value in stacked.items():
            value.sub_(slopes[name], alpha=RATE)

    def in_turn() -> None:
        for module, some, wanted in zip(modules, rows, labels, strict=True):
            steps = torch.optim.SGD(module.parameters(), RATE)
            torch.nn.functional.cross_entropy(module(some), wanted).backward()
            steps.step()
            steps.zero_grad()

    least: dict[Callable[[], None], float] = {}
    for _, side in itertools.product(range(repeat), (together, in_turn)):
        began = time.process_time()
        side()
        least[side] = min(least.get(side, math.inf), time.process_time() - began)
    return least[together] / least[in_turn]


def measure(repeat: int, rounds: int) -> dict[str, float]:
    """Let all sides take turns."""
    sites = images()
    bare, copies = Bare(sites), Bare(sites, copies=True)
    times: dict[str, list[float]] = {"bare": [], "copies": [], "open": [], "secure": []}
    each, envelope = 0.0, 0
    for _ in range(repeat):
        times["bare"].append(bare.round())
        times["copies"].append(copies.round())
        times["open"].append(federated(sites, rounds, secure=False)[0])
        cost, each, envelope = federated(sites, rounds, secure=True)
        times["secure"].append(cost)
        times["bare"].append(bare.round())
        times["copies"].append(copies.round())
    least = {name: min(values) for name, values in times.items()}
    return {
        "open_over_bare": least["open"] / least["bare"],
        "secure_over_open": least["secure"] / least["open"],
        "over_deepcopy": least["open"] / least["copies"],
        "bytes_per_parameter": each,
        "bytes_beside": float(envelope),
        "bare_seconds": least["bare"],
        "vmap_convnet": batched(NETWORK, SHAPE, 1 + repeat),
        "vmap_mlp": batched(MLP(), (200,), 5 * repeat),
        "parameters": float(sum(p.numel() for p in bare.module.parameters())),
    }


def main() -> None:
    """Measure, print, and keep the full results."""
    options = parser(__doc__).parse_args()
    torch.set_num_threads(1)
    result = {name: round(value, 3) for name, value in measure(*((1, 2) if options.quick else (3, 3))).items()}
    if not options.quick:
        keep("training", result)
    if not options.json:
        print(json.dumps(result, indent=2))
    print(json.dumps(result))


if __name__ == "__main__":
    main()

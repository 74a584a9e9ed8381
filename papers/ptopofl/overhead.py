"""What pTopoFL costs beside FedAvg (Section 4.8): bytes that a site sends, and processor time.

    python papers/ptopofl/overhead.py                    # a minute; writes results/overhead.*
    python papers/ptopofl/overhead.py --only network     # one of the models
    python papers/ptopofl/overhead.py --quick --json     # 2 rounds; writes nothing

Scenario A, 15 rounds, whole runs (`fedgeom.run`): logistic regression (21 numbers) and a network with 64 and 32 hidden
units. pTopoFL as published sends models in the open; with secure sums ("secure") those of clusters are masked, and
weights by closeness and trust are left out, where they would single sites out. Bytes are those of the ledger, of the
site that sent most; "a round" is what a further round adds. Processor time is that of the whole run in one process
(coordinator and eight sites), the least of three; of describing rows it is that of all eight descriptors, taken alone.
The paper says O(m) for pTopoFL and O(p) for FedAvg.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.geometry.topology.descriptors import descriptor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import finish, parser, table
from papers.ptopofl.scenarios import scenario_a
from papers.ptopofl.scoring import RESULTS

ROUNDS, QUICK_ROUNDS, REPEATS = 15, 2, 3
STEPS: dict[str, Any] = {"steps": 5, "batch_size": None, "learning_rate": 0.5}
NETWORK = {"name": "mlp", "hidden": 64, "features": 32}
MODELS: dict[str, dict[str, Any]] = {"logistic": {}, "network": {"network": NETWORK}}
COUNTED = ("bytes", "bytes of shapes", "bytes a round")
ROWS: dict[str, Callable[..., Any]] = {
    "FedAvg, in the open": lambda **s: fedgeom.FedAvg(secure=False, **s),
    "pTopoFL, published": lambda **s: fedgeom.PTopoFL.published(**({"solver": "sgd", "augment": False} | s)),
    "FedAvg, secure": lambda **s: fedgeom.FedAvg(**s),
    "pTopoFL, secure": lambda **s: fedgeom.PTopoFL(n_clusters=2, closeness=False, trust="none", **s),
}


def measure(model: str, rounds: int, repeats: int) -> dict[str, Any]:
    """Return bytes and seconds of each row, and of describing rows alone."""
    scenario, found = scenario_a(0, adversarial=0), dict[str, Any]()

    def hold(name: str, rounds: int) -> tuple[dict[str, int], float]:
        began = time.process_time()
        run = fedgeom.run(ROWS[name](n_rounds=rounds, **STEPS, **MODELS[model]), scenario.train, seed=0)
        seconds, sent = time.process_time() - began, list[dict[str, int]]()
        for site in scenario.train:
            kinds: dict[str, int] = {}
            for entry in run.ledger:
                if entry.site == site.name:
                    kinds[entry.kind] = kinds.get(entry.kind, 0) + entry.bytes
            sent.append(kinds)
        return max(sent, key=lambda kinds: sum(kinds.values())), seconds

    for name in ROWS:
        once = sum(hold(name, 1)[0].values())  # and what is imported on the way is in nobody's time
        held = [hold(name, rounds) for _ in range(repeats)]
        kinds = held[0][0]
        found[name] = {
            "bytes": sum(kinds.values()),
            "bytes of shapes": sum(size for kind, size in kinds.items() if kind.startswith("topo.")),
            "bytes a round": round((sum(kinds.values()) - once) / (rounds - 1)),
            "CPU s": round(min(seconds for _, seconds in held), 3),
        }
    began = time.process_time()
    for site in scenario.train:
        descriptor(site.X, rng=np.random.default_rng(0))
    found["describing rows alone"] = {"CPU s": round(time.process_time() - began, 3)}
    return found


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = ["# What pTopoFL costs", "", "Made by `python papers/ptopofl/overhead.py`, whose head says how.", ""]
    for model, found in results.items():
        lines += [f"## {model}, {ROUNDS} rounds, eight sites", ""]
        head = ["row", "bytes that a site sends", "of these shapes", "a round", "CPU s, all sites"]
        rows = [
            [
                name,
                *(f"{one[k]:,}" if k in one else "–" for k in ("bytes", "bytes of shapes", "bytes a round")),
                one["CPU s"],
            ]
            for name, one in found.items()
        ]
        lines += [*table(head, rows), ""]
    lines += [
        "Models travel in every round, as Algorithm 1 says; the 48 numbers come on top, once. So pTopoFL sends more",
        "than FedAvg, not O(m) in place of O(p): the descriptor replaces nothing. It is small, and soon computed.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, write and print."""
    options = parser(__doc__, MODELS).parse_args()
    rounds, repeats = (QUICK_ROUNDS, 1) if options.quick else (ROUNDS, REPEATS)
    found = {name: measure(name, rounds, repeats) for name in options.only}
    finish(options, RESULTS, "overhead", found, MODELS, page)


if __name__ == "__main__":
    main()

"""Killed after every round and resumed, every row that trains a network gives the very model it would have given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; it comes with the extra fedgeom[torch]")

import fedgeom
from fedgeom.federation.coordinator import Event
from fedgeom.federation.method import METHODS
from fedgeom.methods.iterative.algorithm import Algorithm
from tests.methods.hyperfed.making import clinics
from tests.methods.iterative.making import own

ROUNDS = 3
NETWORK = {"name": "mlp", "features": 4, "hidden": 4, "dropout": 0.25}
"""Dropout, momentum and a schedule: all that might begin anew after a death and must not."""
SHORT: dict[str, Any] = {
    "n_rounds": ROUNDS,
    "epochs": 1,
    "batch_size": 16,
    "network": NETWORK,
    "optimizer": {"name": "sgd", "momentum": 0.9},
    "schedule": "cosine",
    "validation_fraction": 0.25,
}
BARE = {"apple", "scaffold", "pfedme"}
"""Rows whose rule is about plain steps."""
ROWS = sorted(
    name
    for name, cls in METHODS.items()
    if issubclass(cls, Algorithm) and cls.__module__.startswith("fedgeom.") and cls.sends and name != "ptopofl"
)
"""All but local training, which has no rounds, and pTopoFL, which has settings of its own below."""
TOPOLOGY = {"n_points": 10, "n_clusters": 2, "closeness": False, "trust": "none"}
OTHERS: dict[str, dict[str, Any]] = {
    "fedavg by image": {"shape": (1, 2, 2), "augmentation": {"name": "crops", "padding": 1}},
    "fedavg with a share": {"participation": 0.75},
    "hyperfed open": {"secure": False},
    "hyperfed averaged": {"aggregation": "mean"},
    "hyperfed own prototypes": {"prototypes": "fixed"},
    "hyperfed published": {"loss": "triplet", "aggregation": {"name": "consistent", "deviations": "raw"}},
    "ptopofl activations": TOPOLOGY | {"descriptor_input": "activations", "first_descriptor_round": 1},
    "ptopofl open": TOPOLOGY | {"descriptor_input": "activations", "secure": False, "topo_inputs": True},
}
"""The same rows with other settings, by the row's name and what is other."""
SITES = clinics(4, 24)


class Killed(BaseException):
    """Stands for the death of the process: nothing of ours catches it."""


def made(title: str) -> Any:
    name = title.split()[0]
    if name == "hyperfed":
        pytest.importorskip("seal", reason="updates are compared by seal-python")
    if name == "ptopofl":
        pytest.importorskip("gudhi", reason="shapes are described by gudhi")
    plain = {"optimizer": "sgd"} if name in BARE else {}
    return METHODS[name](**(SHORT | plain | OTHERS.get(title, {})))


def dying(folder: Path, rounds: int) -> Any:
    """Return a watcher that dies with the first answer after so many rounds are written down."""

    def watch(event: Event) -> None:
        if event.state == "answered" and len(list((folder / "rounds").glob("*"))) >= rounds:
            raise Killed

    return watch


@pytest.mark.full
@pytest.mark.parametrize("title", [*ROWS, *OTHERS])
def test_killed_after_every_round_and_resumed(title: str, tmp_path: Path) -> None:
    row, folder = made(title), tmp_path / "run"
    clean = fedgeom.run(row, SITES, seed=4)
    for done in range(1, ROUNDS + 1):
        with pytest.raises(Killed):
            fedgeom.run(row, SITES, seed=4, record=folder, resume=True, watch=dying(folder, done))
    run = fedgeom.run(row, SITES, seed=4, record=folder, resume=True)
    assert run.model.to_bytes() == clean.model.to_bytes()
    for site in SITES:
        assert (own(run, site.name) == own(clean, site.name)).all()
    assert run.metrics | {"seconds": 0} == clean.metrics | {"seconds": 0}

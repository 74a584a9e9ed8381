"""Secure runs against `twin.py`, which was written from the papers: minibatches, many classes, a share of the sites."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedgeom
from tests.methods.iterative import twin
from tests.methods.iterative.making import unlike, whole

SEED = 11
SITES = {classes: unlike(5, rows=13, columns=3, classes=classes, seed=4) for classes in (2, 3)}
CLIENTS = {classes: twin.clients_of(sites, C=0.5) for classes, sites in SITES.items()}

WORKS = {
    "epochs": {"n_rounds": 4, "learning_rate": 0.3, "epochs": 2, "batch_size": 5},
    "steps": {"n_rounds": 3, "learning_rate": 0.2, "steps": 7, "batch_size": 4},
    "a share": {"n_rounds": 6, "learning_rate": 0.3, "epochs": 1, "batch_size": 6, "participation": 0.6},
}
"""Sites have 13 to 25 rows, so that most last batches are smaller, and seven steps end in the middle of an epoch."""

ADAPTIVE = {"server_learning_rate": 0.2, "beta1": 0.8, "beta2": 0.95, "tau": 0.01}
MOREAU = {
    "local_rounds": 3,
    "inner_steps": 4,
    "lam": 2.0,
    "outer_learning_rate": 0.2,
    "inner_learning_rate": 0.1,
    "beta": 0.7,
}

JOINT = {
    "FedAvg": (twin.fedavg, {}),
    "FedProx": (twin.fedprox, {"mu": 0.7}),
    "Scaffold": (twin.scaffold, {"server_learning_rate": 0.8}),
    "FedDyn": (twin.feddyn, {"alpha": 0.4}),
    "FedAdam": (lambda *a, **o: twin.fedopt(*a, yogi=False, **o), ADAPTIVE),
    "FedYogi": (lambda *a, **o: twin.fedopt(*a, yogi=True, **o), ADAPTIVE),
}
PERSONAL = {"Ditto": (twin.ditto, {"lam": 0.5}), "PFedMe": (twin.pfedme, MOREAU)}

NEAR = {"rel": 0, "abs": 1e-6}
"""Sums are rounded to 2⁻²⁸ at every site and in every round."""

everywhere = pytest.mark.parametrize("work", WORKS)
classes_too = pytest.mark.parametrize("classes", SITES)


def secure(name: str, own: dict[str, float], work: str, classes: int) -> fedgeom.Run:
    """Run a row through the whole protocol, on columns as they are."""
    method = getattr(fedgeom, name)(**own, **WORKS[work], C=0.5, scale="none")
    run = fedgeom.run(method, SITES[classes], seed=SEED)
    kinds = {entry.kind for entry in run.ledger}
    assert "sum.masked" in kinds
    assert "train.update" not in kinds  # nobody's own model was seen
    return run


@everywhere
@classes_too
@pytest.mark.parametrize("name", JOINT)
def test_the_joint_model_is_the_papers(name: str, classes: int, work: str) -> None:
    algorithm, own = JOINT[name]
    expected = algorithm(CLIENTS[classes], twin.Work(**WORKS[work], seed=SEED), **own)
    assert whole(secure(name, own, work, classes).model) == pytest.approx(expected, **NEAR)


@everywhere
@classes_too
@pytest.mark.parametrize("name", PERSONAL)
def test_joint_and_personal_models_are_the_papers(name: str, classes: int, work: str) -> None:
    algorithm, own = PERSONAL[name]
    expected, personal = algorithm(CLIENTS[classes], twin.Work(**WORKS[work], seed=SEED), **own)
    run = secure(name, own, work, classes)
    assert whole(run.model) == pytest.approx(expected, **NEAR)
    for site, wanted in zip(SITES[classes], personal, strict=True):
        assert run.local[site.name]["model"] == pytest.approx(wanted, **NEAR)


@everywhere
def test_shared_bodies_and_own_heads_are_the_papers(work: str) -> None:
    head = np.arange(12) < 3  # the intercepts of three classes
    body, personal = twin.fedper(CLIENTS[3], twin.Work(**WORKS[work], seed=SEED), head)
    run = secure("FedPer", {}, work, 3)
    assert run.model.parameters["weights"].ravel() == pytest.approx(body, **NEAR)
    for site, wanted in zip(SITES[3], personal, strict=True):
        assert run.local[site.name]["model"] == pytest.approx(wanted, **NEAR)


@classes_too
def test_columns_are_standardised_over_all_rows(classes: int) -> None:
    work = WORKS["epochs"]
    run = fedgeom.run(fedgeom.FedAvg(**work, C=0.5), SITES[classes], seed=SEED)
    expected = twin.fedavg(twin.standardised(CLIENTS[classes]), twin.Work(**work, seed=SEED))
    assert whole(run.model) == pytest.approx(expected, abs=1e-5)  # column sums are rounded to 2⁻²⁰


def test_the_cases_are_not_too_easy() -> None:
    """Batches and their order matter by more than the tolerance, and so does who takes part."""
    work = twin.Work(**WORKS["a share"], seed=SEED)
    changed = [{"batch_size": None}, {"batch_size": 5}, {"participation": 1.0}, {"seed": SEED + 1}]
    for clients in CLIENTS.values():
        for other in changed:
            gap = twin.fedavg(clients, work) - twin.fedavg(clients, replace(work, **other))
            assert np.abs(gap).max() > 1e-3

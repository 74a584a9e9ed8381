"""Secure runs against `twin.py` once more: what else may be set beside an algorithm, and other algorithms."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.methods.iterative import (
    SGD,
    AdamW,
    Decay,
    GroupMedian,
    Interpolation,
    Krum,
    TorchLearner,
    TrimmedMean,
)
from tests.methods.iterative import twin
from tests.methods.iterative.making import own, unlike, whole
from tests.methods.moments.twin import geometric_median, groups

SEED = 11
WORK: dict[str, Any] = {"n_rounds": 4, "learning_rate": 0.3, "epochs": 2, "batch_size": 5}
SITES = {classes: unlike(7, rows=13, columns=3, classes=classes, seed=4) for classes in (2, 3)}
NEAR = {"rel": 0, "abs": 1e-6}

classes_too = pytest.mark.parametrize("classes", SITES)


def clients(classes: int, C: float = 0.5) -> list[twin.Client]:
    return twin.clients_of(SITES[classes], C=C)


def work(**changes: Any) -> twin.Work:
    return twin.Work(**WORK | changes, seed=SEED)


def secure(name: str, sites: list[SiteData], policy: fedgeom.Policy | None = None, **settings: Any) -> fedgeom.Run:
    """Run an algorithm through the whole protocol, on columns as they are unless said otherwise."""
    method = getattr(fedgeom, name)(**WORK | {"C": 0.5, "scale": "none"} | settings)
    return fedgeom.run(method, sites, seed=SEED, policy=policy)


ALGORITHMS = {
    "FedAvgM": ({"server_learning_rate": 0.7, "server_momentum": 0.6}, twin.fedavgm),
    "FedNova": ({}, twin.fednova),
    "FedExP": ({"epsilon": 1e-3}, twin.fedexp),
    "FedDC": ({"alpha": 0.3}, twin.feddc),
}


@classes_too
@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_other_algorithms_are_the_papers(name: str, share: float, classes: int) -> None:
    settings, algorithm = ALGORITHMS[name]
    expected = algorithm(clients(classes), work(participation=share), **settings)
    assert whole(secure(name, SITES[classes], participation=share, **settings).model) == pytest.approx(
        expected, **NEAR
    )


@classes_too
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_mixtures_of_own_and_joint_models_are_the_papers(share: float, classes: int) -> None:
    settings = {"weight_learning_rate": 5.0, "weight_rows": 0.7, "weight_steps": 6}
    expected = {"rate": 5.0, "share": 0.7, "steps": 6}
    joint, models = twin.fedala(clients(classes), work(participation=share), **expected)
    run = secure("FedALA", SITES[classes], participation=share, **settings)
    assert whole(run.model) == pytest.approx(joint, **NEAR)
    for site, model in zip(SITES[classes], models, strict=True):
        assert own(run, site.name) == pytest.approx(model, **NEAR)


@classes_too
def test_a_head_that_no_round_trains(classes: int) -> None:
    head = np.arange(4 * (1 if classes == 2 else 3)) < (1 if classes == 2 else 3)
    joint, models = twin.fedbabu(clients(classes), work(), head)
    run = secure("FedBABU", SITES[classes])
    assert whole(run.model) == pytest.approx(joint, **NEAR)
    for site, model in zip(SITES[classes], models, strict=True):
        assert own(run, site.name) == pytest.approx(model, **NEAR)


@classes_too
def test_heads_that_are_trained_before_the_body(classes: int) -> None:
    head = np.arange(4 * (1 if classes == 2 else 3)) < (1 if classes == 2 else 3)
    body, models = twin.fedrep(clients(classes), work(participation=0.6), head, head_epochs=3)
    run = secure("FedRep", SITES[classes], participation=0.6, head_epochs=3)
    assert run.model.parameters["weights"].ravel() == pytest.approx(body, **NEAR)
    for site, model in zip(SITES[classes], models, strict=True):
        assert own(run, site.name) == pytest.approx(model, **NEAR)


PERSONAL = {
    "FedMTL": ({"lam": 0.5}, twin.fedmtl),
    "Apple": ({"share_learning_rate": 0.05, "mu": 0.1, "settling": 0.75}, twin.apple),
}


@classes_too
@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.parametrize("name", PERSONAL)
def test_models_of_ones_own_are_the_papers(name: str, share: float, classes: int) -> None:
    settings, algorithm = PERSONAL[name]
    joint, models = algorithm(clients(classes), work(participation=share), **settings)
    run = secure(name, SITES[classes], participation=share, **settings)
    assert whole(run.model) == pytest.approx(joint, **NEAR)
    for site, model in zip(SITES[classes], models, strict=True):
        assert own(run, site.name) == pytest.approx(model, **NEAR)


@classes_too
@pytest.mark.parametrize("mix", [0.3, 1.0, None])
def test_mixtures_of_the_joint_and_the_local_model(mix: float | None, classes: int) -> None:
    joint, models = twin.interpolated(clients(classes), work(), mix)
    run = secure("Interpolated", SITES[classes], personal=Interpolation(mix))
    assert whole(run.model) == pytest.approx(joint, **NEAR)
    for site, model in zip(SITES[classes], models, strict=True):
        assert own(run, site.name) == pytest.approx(model, **NEAR)
    if mix is None:  # sites choose differently
        away = [np.linalg.norm(model - joint) for model in models]
        assert min(away) < 0.5 * max(away)


def test_each_client_by_itself() -> None:
    run = secure("LocalOnly", SITES[3])
    for site, model in zip(SITES[3], twin.local_only(clients(3), work()), strict=True):
        assert own(run, site.name) == pytest.approx(model, **NEAR)


OPEN = {
    "median": ("median", lambda models, there: np.median(models, axis=0)),
    "trimmed": (TrimmedMean(0.2), lambda models, there: twin.trimmed(models, there, 0.2)),
    "krum": (Krum(2), lambda models, there: twin.krum(models, there, 2)),
    "geometric": ("geometric", twin.geometric),
}


@classes_too
@pytest.mark.parametrize("name", OPEN)
def test_robust_means_of_models_that_are_seen(name: str, classes: int) -> None:
    aggregation, combine = OPEN[name]
    expected = twin.averaging(clients(classes), work(), combine)
    found = whole(secure("FedAvg", SITES[classes], aggregation=aggregation).model)
    assert found == pytest.approx(expected, abs=1e-6 if name != "geometric" else 1e-5)
    assert np.abs(expected - twin.fedavg(clients(classes), work())).max() > 1e-3


TYPICAL = {
    "median": lambda means: np.median(means, axis=0),
    "geometric": lambda means: geometric_median(np.array(means)),
}


@pytest.mark.parametrize("how", TYPICAL)
@pytest.mark.parametrize("scale", ["none", "joint"])
def test_medians_over_groups_of_sites(scale: str, how: Any) -> None:
    sites = unlike(13, rows=9, columns=2, seed=4)
    drawn = [list(group) for group in groups([site.name for site in sites], 4, SEED)]
    there = twin.clients_of(sites, C=0.5)
    if scale == "joint":  # the median of the groups' means and deviations
        rows = [np.vstack([site.X for site in sites if site.name in group]) for group in drawn]
        centre = np.median([one.mean(axis=0) for one in rows], axis=0)
        spread = np.median([one.std(axis=0) for one in rows], axis=0)
        there = [replace(client, X=(client.X - centre) / spread) for client in there]
    expected = twin.averaging(there, work(), twin.median_of_groups(drawn, TYPICAL[how]))
    robust = GroupMedian(n_groups=4, rule=how, drawn_by="seed")
    run = secure("FedAvg", sites, scale=scale, aggregation=robust)
    assert "train.update" not in {entry.kind for entry in run.ledger}
    assert whole(run.model) == pytest.approx(expected, abs=1e-5 if how == "median" else 1e-3)
    assert np.abs(expected - twin.fedavg(there, work())).max() > 5e-3


BESIDE: dict[str, tuple[Any, dict[str, Any]]] = {
    "FedProx": (twin.fedprox, {"mu": 0.7}),
    "FedAvgM": (twin.fedavgm, {"server_learning_rate": 0.7, "server_momentum": 0.6}),
    "FedAdam": (
        partial(twin.fedopt, yogi=False),
        {"server_learning_rate": 0.2, "beta1": 0.8, "beta2": 0.95, "tau": 0.1},
    ),
    "Scaffold": (twin.scaffold, {"server_learning_rate": 0.8}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_medians_over_groups_in_other_algorithms(name: str) -> None:
    sites = unlike(13, rows=9, columns=2, seed=4)
    drawn = [list(group) for group in groups([site.name for site in sites], 4, SEED)]
    there = twin.clients_of(sites, C=0.5)
    algorithm, settings = BESIDE[name]
    combine = twin.median_of_groups(drawn, by_rows=name != "Scaffold")
    expected = algorithm(there, work(n_rounds=3), **settings, combine=combine)
    robust = GroupMedian(n_groups=4, drawn_by="seed")
    found = whole(secure(name, sites, n_rounds=3, aggregation=robust, **settings).model)
    assert found == pytest.approx(expected, abs=1e-5)
    assert np.abs(expected - algorithm(there, work(n_rounds=3), **settings)).max() > 5e-3


SCHEDULES = {
    "cosine": ("cosine", lambda t: (1 + math.cos(math.pi * t / 4)) / 2),
    "decay": (Decay(0.6), lambda t: 0.6**t),
    "step": ({"name": "step", "every": 2, "decay": 0.2}, lambda t: 0.2 ** (t // 2)),
    "warmup": ({"name": "warmup", "warmup_rounds": 2, "then": "constant"}, lambda t: (1 / 3, 2 / 3, 1, 1)[t]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_that_change_with_the_rounds(name: str) -> None:
    schedule, factor = SCHEDULES[name]
    expected = twin.averaging(clients(3), work(), factor=factor)
    assert whole(secure("FedAvg", SITES[3], schedule=schedule).model) == pytest.approx(expected, **NEAR)


def test_all_sites_count_the_same_where_settings_say_so() -> None:
    expected = twin.averaging(clients(3), work(), lambda models, there: twin.mean(models))
    assert whole(secure("FedAvg", SITES[3], weights="sites").model) == pytest.approx(expected, **NEAR)


@pytest.mark.parametrize("scale", ["site", "pixels"])
def test_scales_of_a_sites_own_and_of_pixels(scale: str) -> None:
    there = clients(3)
    if scale == "site":
        there = [replace(one, X=(one.X - one.X.mean(axis=0)) / one.X.std(axis=0)) for one in there]
        sites = SITES[3]
    else:
        sites = [SiteData(site.name, np.round(40 * site.X + 100), site.y) for site in SITES[3]]
        there = [replace(one, X=np.round(40 * one.X + 100) / 255) for one in there]
    found = whole(secure("FedAvg", sites, scale=scale).model)
    assert found == pytest.approx(twin.fedavg(there, work()), abs=1e-5)


def test_rows_that_are_set_aside_are_not_trained_on() -> None:
    kept, _ = twin.set_aside(clients(3), work(), 0.25)
    run = secure("FedAvg", SITES[3], validation_fraction=0.25, patience=None)
    assert whole(run.model) == pytest.approx(twin.fedavg(kept, work()), **NEAR)


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_training_ends_when_patience_does(patience: int) -> None:
    changes: dict[str, Any] = {"n_rounds": 8, "learning_rate": 0.5}
    expected, losses = twin.stopped_early(clients(3), work(**changes), 0.25, patience)
    assert 1 < len(losses) < 8
    run = secure("FedAvg", SITES[3], validation_fraction=0.25, patience=patience, **changes)
    assert run.metrics["loss on rows set aside"] == pytest.approx(losses, abs=1e-6)
    assert whole(run.model) == pytest.approx(expected, **NEAR)


def test_rows_of_rare_classes_are_not_trained_on() -> None:
    odd = [SiteData(site.name, site.X, site.y.astype("U12")) for site in SITES[3]]
    odd[2].y[:6] = "rare"
    policy = fedgeom.Policy(single_site_classes=False, min_sites=3, min_rows=10)
    run = secure("FedAvg", odd, policy)
    left = [site.take(site.y != "rare") for site in odd]
    assert whole(run.model) == pytest.approx(twin.fedavg(twin.clients_of(left, C=0.5), work()), **NEAR)


OPTIMIZERS: dict[str, tuple[dict[str, Any], Any]] = {
    "momentum": ({"optimizer": SGD(momentum=0.8)}, partial(twin.sgd, 0.1, 0.8)),
    "decay": ({"optimizer": SGD(momentum=0.5, weight_decay=0.3)}, partial(twin.sgd, 0.1, 0.5, 0.3)),
    "nesterov": ({"optimizer": SGD(momentum=0.8, nesterov=True)}, partial(twin.sgd, 0.1, 0.8, nesterov=True)),
    "clip": ({"max_grad_norm": 0.3}, partial(twin.sgd, 0.1, clip=0.3)),
    "adamw": ({"optimizer": AdamW(0.8, 0.95, 0.2)}, partial(twin.adamw, 0.1, 0.8, 0.95, 0.2)),
}


def softmax_regression(columns: int, classes: int) -> Any:
    """Build a linear layer that starts at zero."""
    torch = pytest.importorskip("torch")
    made = torch.nn.Linear(columns, classes)
    torch.nn.init.zeros_(made.weight)
    torch.nn.init.zeros_(made.bias)
    return made


def trained_by(name: str, **settings: Any) -> np.ndarray:
    """Return what a secure run makes of a torch module: intercepts, then the weights of each column."""
    pytest.importorskip("torch")
    learner = TorchLearner("twin-softmax", softmax_regression)
    made = secure(name, SITES[3], learning_rate=0.1, learner=learner, **settings).model.parameters
    return np.concatenate([made["bias"], np.transpose(made["weight"]).ravel()])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_optimizers(name: str) -> None:
    settings, optimizer = OPTIMIZERS[name]
    expected = twin.optimized(clients(3, C=np.inf), work(), optimizer)
    assert trained_by("FedAvg", **settings) == pytest.approx(expected, abs=2e-5)  # single precision
    plain = twin.optimized(clients(3, C=np.inf), work(), partial(twin.sgd, 0.1))
    assert np.abs(expected - plain).max() > 0.02


def test_momentum_counts_in_fednova() -> None:
    expected = twin.optimized(clients(3, C=np.inf), work(), partial(twin.sgd, 0.1, 0.8), nova=0.8)
    assert trained_by("FedNova", optimizer=SGD(momentum=0.8)) == pytest.approx(expected, abs=2e-5)
    unaware = twin.optimized(clients(3, C=np.inf), work(), partial(twin.sgd, 0.1, 0.8), nova=0.0)
    assert np.abs(expected - unaware).max() > 1e-3


# With privacy: ε = 40 is hardly any noise.


def crowd(sites: int, rows: int) -> list[SiteData]:
    """Draw sites of equally many rows."""
    rng = np.random.default_rng(2)
    found = []
    for at in range(sites):
        y = rng.integers(0, 3, rows)
        found.append(
            SiteData(f"s{at:02d}", np.eye(3)[y] + 0.5 * rng.normal(size=(rows, 3)), np.array(list("abc"))[y])
        )
    return found


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("classes", [2, 3])
def test_steps_along_shortened_gradients_of_rows(classes: int) -> None:
    sites = crowd(4, 1500)
    if classes == 2:
        sites = [site.take(site.y != "c") for site in sites]
    privacy = fedgeom.DP(epsilon=40.0, delta=0.01, clip=0.4)
    settings: dict[str, Any] = {
        "n_rounds": 3,
        "steps": 1,
        "batch_size": None,
        "learning_rate": 2.0,
        "C": 0.01,
        "min_sites": 4,
    }
    run = secure("FedAvg", sites, classes=tuple("abc"[:classes]), privacy=privacy, **settings)
    there = twin.clients_of(sites, C=0.01)
    expected = twin.private_rows(there, work(n_rounds=3, learning_rate=2.0), 0.4)
    assert whole(run.model) == pytest.approx(expected, abs=5e-3)
    longer = twin.private_rows(there, work(n_rounds=3, learning_rate=2.0), 40.0)
    assert np.abs(longer - expected).max() > 0.1


@pytest.mark.usefixtures("fixed_noise")
def test_means_of_shortened_changes_of_sites() -> None:
    """Of 60 sites, as one site's change is a large part of a mean: noise is larger than per row."""
    sites = crowd(60, 12)
    privacy = fedgeom.DP(epsilon=40.0, delta=0.01, clip=0.25, unit="site", colluders=0)
    settings: dict[str, Any] = {"n_rounds": 1, "weights": "sites", "classes": tuple("abc"), "min_sites": 60}
    run = secure("FedAvg", sites, privacy=privacy, **settings)
    there = twin.clients_of(sites, C=0.5)
    expected = twin.private_sites(there, work(n_rounds=1), 0.25)
    assert whole(run.model) == pytest.approx(expected, abs=6e-3)
    assert np.abs(twin.private_sites(there, work(n_rounds=1), 10.0) - expected).max() > 0.06

"""Hooks into the torch step, own loops, optimizers of torch by name, own bodies, and objects that are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.extend import Algorithm, Network, TorchLearner, TorchOptimizer, own_network
from fedgeom.federation.method import METHODS
from fedgeom.methods.iterative import Adam, Optimizer
from fedgeom.methods.iterative.learners import LEARNERS
from tests.methods.iterative.making import DEEP, unlike

torch = pytest.importorskip("torch", reason="needs the torch extra")
KIND = {"network": "mlp", "n_rounds": 2, "epochs": 2, "learning_rate": 0.05}


@pytest.fixture(autouse=True)
def known_here(monkeypatch):
    """Whatever a test defines is forgotten after it."""
    for registry in (METHODS, LEARNERS, Network.registry):
        monkeypatch.setattr(registry, "_known", dict(registry._known))


def chances(method, sites=None):
    sites = unlike() if sites is None else sites
    return fedgeom.run(method, sites, seed=0).model.predict_proba(sites[0].X)


def own_algorithms():
    @dataclass(frozen=True, kw_only=True)
    class Backward(Algorithm):
        """Calls backward itself, after PyTorch's usual zero_grad, which throws gradients away."""

        name: ClassVar[str] = "own-backward"

        def local_step(self, model, batch, state):
            model.zero_grad()
            batch.loss().backward()

    @dataclass(frozen=True, kw_only=True)
    class Returned(Algorithm):
        """Returns the loss, written anew."""

        name: ClassVar[str] = "own-returned"

        def local_step(self, model, batch, state):
            assert state["step"] == state.setdefault("seen", 0)
            state["seen"] += 1
            return torch.nn.functional.cross_entropy(model(batch.inputs), batch.labels)

    return Backward, Returned


def test_a_step_of_ones_own_that_does_the_usual_gives_the_usual_model():
    wanted = chances(fedgeom.FedAvg(**KIND, optimizer={"name": "sgd", "momentum": 0.9}))
    for cls in own_algorithms():
        found = chances(cls(**KIND, optimizer={"name": "sgd", "momentum": 0.9}))
        np.testing.assert_array_equal(found, wanted)


def test_sharpness_aware_minimisation_by_hand():
    """w ← w − η∇F(w + ρ∇F(w)/‖∇F(w)‖) for one full batch of a linear model, against NumPy (Foret et al. 2021)."""
    rho, rate = 0.5, 0.1

    @dataclass(frozen=True, kw_only=True)
    class Sharpness(Algorithm):
        name: ClassVar[str] = "own-sharpness"

        def local_step(self, model, batch, state):
            batch.loss().backward()
            weights = list(model.parameters())
            length = torch.cat([w.grad.flatten() for w in weights]).norm()
            away = [rho * w.grad / length for w in weights]
            with torch.no_grad():
                for w, step in zip(weights, away, strict=True):
                    w.add_(step)
            model.zero_grad()
            batch.fresh().loss().backward()
            with torch.no_grad():
                for w, step in zip(weights, away, strict=True):
                    w.sub_(step)

    learner = TorchLearner("own-linear", lambda columns, classes: torch.nn.Linear(columns, classes))
    sites = unlike()
    first = learner.start(2, len(np.unique(np.concatenate([s.y for s in sites]))), np.random.default_rng([0, 0]))
    method = Sharpness(learner=learner, n_rounds=1, epochs=1, batch_size=None, learning_rate=rate, scale="none")
    model = fedgeom.run(method, sites, seed=0).model

    def slope(W, b, X, Y):
        Z = X @ W.T + b
        P = np.exp(Z - Z.max(1, keepdims=True))
        D = (P / P.sum(1, keepdims=True) - Y) / len(X)
        return D.T @ X, D.sum(0)

    rows = sum(map(len, sites))
    total = 0.0
    for site in sites:
        Y = (site.y.astype(str)[:, None] == np.array(model.names)).astype(float)
        W, b = (np.asarray(first[name], float) for name in ("weight", "bias"))
        G, g = slope(W, b, site.X, Y)
        length = np.sqrt((G**2).sum() + (g**2).sum())
        G, g = slope(W + rho * G / length, b + rho * g / length, site.X, Y)
        total = total + len(site) / rows * np.hstack([W - rate * G, (b - rate * g)[:, None]])
    found = np.hstack([model.parameters["weight"], model.parameters["bias"][:, None]])
    np.testing.assert_allclose(found, total, atol=2e-6)


def test_a_loop_of_ones_own_replaces_the_whole_training():
    @dataclass(frozen=True, kw_only=True)
    class Loop(Algorithm):
        name: ClassVar[str] = "own-loop"

        def local_train(self, model, data, state):
            optimizer = state["optimizer"](model.parameters())
            for _ in range(state["epochs"]):
                loss = state["loss"](model(data.tensors[0]), data.tensors[1])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    settings = KIND | {"batch_size": None, "loss": "balanced", "optimizer": "adam"}
    np.testing.assert_allclose(chances(Loop(**settings)), chances(fedgeom.FedAvg(**settings)), atol=1e-5)
    frozen = [len(site) for site in unlike()]
    assert min(frozen) > 0


def test_what_a_loop_puts_in_new_tensors_is_the_model():
    @dataclass(frozen=True, kw_only=True)
    class Zero(Algorithm):
        name: ClassVar[str] = "own-zero"

        def local_train(self, model, data, state):
            for weight in model.parameters():
                weight.data = torch.zeros_like(weight)

    model = fedgeom.run(Zero(**KIND), unlike(), seed=0).model
    assert np.abs(model.parameters.flat()).max() < 1e-6  # sums are of fixed point


def test_any_optimizer_of_torch_by_name_and_settings():
    assert fedgeom.FedAvg(network="mlp", optimizer="adam").optimizer == Adam()
    assert fedgeom.FedAvg(network="mlp", optimizer=torch.optim.Adam).optimizer == Adam()
    named = fedgeom.FedAvg(**KIND, optimizer={"name": "rmsprop", "alpha": 0.9})
    assert named.optimizer == TorchOptimizer("RMSprop", {"alpha": 0.9})
    assert type(named).from_terms(named.terms()) == named
    made = named.optimizer.build([torch.nn.Parameter(torch.zeros(2))], 0.3)
    assert isinstance(made, torch.optim.RMSprop)
    assert (made.defaults["alpha"], made.defaults["lr"]) == (0.9, 0.3)
    plain = named.plain(unlike(), 0).model.predict_proba(unlike()[0].X)
    np.testing.assert_array_equal(chances(named), plain)
    for given, said in (
        ({"name": "adagrad", "decay": 1}, "torch.optim.Adagrad has no setting 'decay' here; it has lr_decay"),
        ({"name": "adagrad", "lr": 1}, "its rate is learning_rate"),
        (TorchOptimizer.name, "RMSprop"),
    ):
        if given == "torch":
            assert Optimizer.read(given, "optimizer").of == said
            continue
        with pytest.raises(InputError, match=said):
            fedgeom.FedAvg(network="mlp", optimizer=given)


def body():
    return own_network(
        "own-body", lambda shape: torch.nn.Sequential(torch.nn.Linear(shape[0], 6), torch.nn.Tanh()), 6
    )


@pytest.mark.parametrize("name", ["FedAvg", *DEEP.values(), "HyperFed"])
def test_every_deep_algorithm_takes_a_body_of_ones_own(name):
    method = getattr(fedgeom, name)(network=body(), n_rounds=1, epochs=1)
    assert method.network.width in (6, 20)  # HyperFed adds an embedding of 20 features
    run = fedgeom.run(method, unlike(), seed=0)
    site = run.sites[0]
    assert run.model.for_site(run.local[site.name]).predict_proba(site.X).shape[0] == len(site)


def test_a_whole_module_takes_the_place_of_the_usual_network_where_no_head_is_the_algorithms():
    learner = TorchLearner("own-module", lambda columns, classes: torch.nn.Linear(columns, classes))
    for name in ("Moon", "FedLC", "FedNTD", "FedSAM"):
        method = getattr(fedgeom, name)(learner=learner, n_rounds=1, epochs=1)
        assert method.network is None
        assert chances(method).shape[1] >= 2
    for name in ("HyperFed", "FedRoD", "SphereFed", "FedProto"):
        with pytest.raises(InputError, match="Wanted the body alone: network="):
            getattr(fedgeom, name)(learner=learner)
    with pytest.raises(InputError, match="leave one of them away"):
        fedgeom.Moon(learner=learner, network="lenet", shape=(1, 8, 8))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"learner": torch.nn.Linear(5, 3)}, r"a torch module \(Linear\).*fedgeom\.extend\.TorchLearner"),
        ({"learner": 3}, r"base class is fedgeom\.extend\.Learner"),
        ({"network": "mlp", "loss": torch.nn.CrossEntropyLoss()}, r"base class is fedgeom\.extend\.Loss"),
        ({"network": torch.nn.Linear(5, 3)}, r"base class is fedgeom\.extend\.Network"),
        ({"augmentation": len}, r"base class is fedgeom\.extend\.Augmentation"),
        ({"lr": 0.1}, "FedAvg has no setting 'lr'; here it is called 'learning_rate'"),
        ({"local_epochs": 1}, "here it is called 'epochs'"),
        ({"seed": 0}, r"it is an argument of the run: fedgeom\.run\(method, sites, seed=0\)"),
        ({"learning_rate": np.arange(1000.0)}, r"3\.0, 4\.0, 5\.0, 6\.0, 7\.0, …\] \(a list of 1000\) given"),
    ],
)
def test_wrong_objects_are_told_what_is_wanted(settings, said):
    with pytest.raises(InputError, match=said):
        fedgeom.FedAvg(**settings)


def test_an_optimizer_at_work_and_a_hook_without_torch_are_refused():
    with pytest.raises(InputError, match=r'at work .* Wanted its name, "adam"'):
        fedgeom.FedAvg(network="mlp", optimizer=torch.optim.Adam(torch.nn.Linear(2, 2).parameters()))
    with pytest.raises(InputError, match="has a local_step of its own, which trains torch modules"):
        own_algorithms()[0]()
    with pytest.raises(InputError, match="wanted a function that builds the module anew"):
        own_network("own-wrong", torch.nn.Linear(2, 2), 2)

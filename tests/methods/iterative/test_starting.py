"""Training that begins with a model, in another precision, or with a part of a module alone."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.extend import TorchLearner
from fedgeom.federation.policy import AUTOCAST_VARIABLE, DEVICE_VARIABLE
from fedgeom.methods.iterative.learners import LEARNERS
from tests.methods.iterative.making import unlike

STEPS = {"steps": 3, "batch_size": None}


@pytest.fixture(autouse=True)
def known_here(monkeypatch):
    """Whatever a test defines is forgotten after it."""
    monkeypatch.setattr(LEARNERS, "_known", dict(LEARNERS._known))


def test_two_runs_of_two_rounds_are_one_of_four():
    """With full batches nothing is drawn, so only where a run begins matters."""
    sites = unlike()
    whole = fedgeom.run(fedgeom.FedAvg(n_rounds=4, **STEPS), sites, seed=0)
    first = fedgeom.run(fedgeom.FedAvg(n_rounds=2, **STEPS), sites, seed=0)
    for start in (first, first.model):
        then = fedgeom.run(fedgeom.FedAvg(n_rounds=2, **STEPS), sites, seed=0, start=start)
        np.testing.assert_allclose(then.model.parameters.flat(), whole.model.parameters.flat(), atol=1e-6)
    assert np.abs(first.model.parameters.flat() - whole.model.parameters.flat()).max() > 1e-3


def test_what_training_begins_with_is_in_the_record_and_a_resumed_run_wants_the_same(tmp_path):
    sites = unlike()
    method = fedgeom.FedAvg(n_rounds=2, **STEPS)
    start = fedgeom.run(method, sites, seed=0).model
    with pytest.raises(KeyboardInterrupt):
        fedgeom.run(method, sites, seed=0, start=start, record=tmp_path / "r", resumable=True, watch=_stop_late)
    config = json.loads((tmp_path / "r" / "config.json").read_text())
    assert len(config["start"]) == 64
    with pytest.raises(InputError, match="has start"):
        fedgeom.run(method, sites, seed=0, record=tmp_path / "r", resume=True)
    found = fedgeom.run(method, sites, seed=0, start=start, record=tmp_path / "r", resume=True)
    wanted = fedgeom.run(method, sites, seed=0, start=start)
    np.testing.assert_array_equal(found.model.parameters.flat(), wanted.model.parameters.flat())


def _stop_late(event):
    if event.step >= 14:
        raise KeyboardInterrupt


def test_a_start_that_does_not_fit_is_refused():
    sites = unlike()
    method = fedgeom.FedAvg(n_rounds=1)
    other = [fedgeom.SiteData(site.name, site.X, np.where(site.y == site.y[0], "other", site.y)) for site in sites]
    with pytest.raises(InputError, match="start has the classes"):
        fedgeom.run(method, sites, start=fedgeom.run(method, other).model)
    wide = [fedgeom.SiteData(site.name, np.hstack([site.X, site.X]), site.y) for site in sites]
    with pytest.raises(InputError, match="wanted a model of the same learner or network, with"):
        fedgeom.run(method, sites, start=fedgeom.run(method, wide).model)
    with pytest.raises(InputError, match="a method that trains in rounds"):
        fedgeom.run(fedgeom.Ridge(features="linear"), sites, start=fedgeom.run(method, sites).model)
    with pytest.raises(InputError, match="wanted a model, such as run"):
        fedgeom.run(method, sites, start="model.safetensors")


def test_devices_and_precisions_hold_for_the_run_alone():
    torch = pytest.importorskip("torch", reason="needs the torch extra")
    method = fedgeom.FedAvg(network="mlp", n_rounds=1, epochs=1)
    sites = unlike()
    usual = fedgeom.run(method, sites, seed=0)
    same = fedgeom.run(method, sites, seed=0, device="cpu")
    np.testing.assert_array_equal(usual.model.parameters.flat(), same.model.parameters.flat())
    half = fedgeom.run(method, sites, seed=0, autocast="bfloat16").model.parameters
    away = np.abs(half.flat() - usual.model.parameters.flat()).max()
    assert 0 < away < 0.05
    assert all(leaf.dtype == np.float32 for leaf in half.values() if hasattr(leaf, "dtype"))
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="torch finds no such device here"):
            fedgeom.run(method, sites, device="cuda")
    with pytest.raises(InputError, match="wanted one of bfloat16, float16"):
        fedgeom.run(method, sites, autocast="float8")
    assert not {DEVICE_VARIABLE, AUTOCAST_VARIABLE} & set(os.environ)


def test_of_an_adapted_module_only_the_adapter_is_trained_sent_and_kept(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the torch extra")

    class Adapted(torch.nn.Module):
        """A layer that stays, and a product of two narrow ones beside it (Hu et al. 2022)."""

        def __init__(self, columns, classes):
            super().__init__()
            self.base = torch.nn.Linear(columns, classes)
            self.base.requires_grad_(False)
            self.down = torch.nn.Linear(columns, 1, bias=False)
            self.up = torch.nn.Linear(1, classes, bias=False)

        def forward(self, rows):
            return self.base(rows) + self.up(self.down(rows))

    learner = TorchLearner("own-adapter", Adapted)
    sites = unlike()
    run = fedgeom.run(fedgeom.FedAvg(learner=learner, n_rounds=3, epochs=2), sites, seed=7)
    assert set(run.model.parameters) == {"down.weight", "up.weight"}
    assert run.metrics["numbers"] == 2 + 2  # two columns, two classes, one number between them
    with torch.random.fork_rng():
        torch.manual_seed(0)
        base = Adapted(2, 2).base
    narrow = run.model.parameters["up.weight"] @ run.model.parameters["down.weight"]
    rows = (sites[0].X - run.model.centre) / run.model.spread
    scores = rows @ (base.weight.numpy() + narrow).T + base.bias.numpy()
    wanted = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(run.model.predict_proba(sites[0].X), wanted, atol=1e-5)
    run.model.save(tmp_path / "model.safetensors")
    again = fedgeom.load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(sites[0].X), run.model.predict_proba(sites[0].X))

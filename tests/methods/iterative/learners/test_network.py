"""Networks as learners: seeded, the same for the same options, equal secure, open and plain."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, FedPer
from fedgeom.errors import InputError
from fedgeom.methods.iterative import MLP, ConvNet, Linear, Orthonormal
from fedgeom.methods.iterative.learners.torch_module import NetworkLearner, network_learner
from tests.methods.iterative.making import whole
from tests.methods.iterative.simulation import simulate
from tests.methods.iterative.torching import DIGITS, digits, torch

IMAGES = DIGITS | {"network": ConvNet(features=8, channels=4), "shape": (1, 8, 8)}


def test_the_seed_makes_the_network():
    def start(seed):
        return NetworkLearner(MLP(), Linear()).start(4, 3, np.random.default_rng(seed)).flat()

    before = torch.get_rng_state()
    assert np.array_equal(start(0), start(0))
    assert not np.array_equal(start(0), start(1))
    assert torch.equal(before, torch.get_rng_state())


def test_the_heads_arrays_are_known_before_the_network_is_built():
    assert NetworkLearner(MLP(), Linear()).head == ("head.weight", "head.bias")
    assert NetworkLearner(MLP(), Orthonormal()).head == ()
    with pytest.raises(InputError, match="names no head"):
        FedPer(network="mlp", head="orthonormal")


def test_features_and_scores_are_those_of_body_and_head():
    learner = NetworkLearner(MLP(features=5), Linear())
    w = learner.start(4, 3, np.random.default_rng(0))
    X = np.random.default_rng(1).normal(size=(7, 4))
    Z = learner.features(w, X)
    assert Z.shape == (7, 5)
    scores = Z @ w["head.weight"].T + w["head.bias"]
    assert np.allclose(learner.scores(w, Z), scores, atol=1e-6)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(learner.predict_proba(w, X), chances, atol=1e-6)


@pytest.mark.parametrize("settings", [DIGITS, IMAGES], ids=["mlp", "convnet"])
def test_secure_open_and_plain_give_the_same_network_bit_for_bit(settings):
    sites, rule = digits(), FedAvg(**settings)
    secure, opened = fedgeom.run(rule, sites, seed=2), fedgeom.run(FedAvg(secure=False, **settings), sites, seed=2)
    assert np.array_equal(whole(secure.model), whole(opened.model))
    assert np.array_equal(whole(secure.model), whole(simulate(rule, sites, 2).model))
    assert {leaf.dtype for leaf in secure.model.parameters.values()} == {np.dtype(np.float32)}


def test_a_network_learns_digits():
    sites = digits(rows=200)
    model = FedAvg(**(IMAGES | {"n_rounds": 6, "epochs": 3, "learning_rate": 0.1})).plain(sites).model
    assert np.mean([np.mean(model.predict(site.X) == site.y) for site in sites]) > 0.9


def test_a_shape_that_does_not_fit_the_columns_is_refused():
    with pytest.raises(InputError, match=r"shape=\(1, 9, 8\) given, 72 numbers a row; the tables have 64 columns"):
        FedAvg(**(IMAGES | {"shape": (1, 9, 8)})).plain(digits())


def test_the_same_options_give_the_same_learner():
    options = FedAvg(**IMAGES).learner_options()
    assert network_learner(options) is network_learner(dict(options))
    assert network_learner(options | {"shape": None}) is not network_learner(options)


def test_bytes_of_images_are_never_made_double_and_images_are_predicted_as_they_are():
    rng = np.random.default_rng(0)
    images, y = rng.integers(0, 256, (90, 64)).astype(np.uint8), np.arange(90) % 3
    sites = [fedgeom.SiteData(f"s{at}", images[at::3], y[at::3]) for at in range(3)]
    rule = FedAvg(**(IMAGES | {"scale": "pixels"}))
    run = fedgeom.run(rule, sites, seed=0)
    assert not any("X" in vars(site) for site in sites)  # where a site's rows as double would be kept
    assert np.array_equal(whole(run.model), whole(simulate(rule, sites).model))
    as_double = [fedgeom.SiteData(site.name, site.X, site.y) for site in sites]
    assert np.allclose(whole(run.model), whole(rule.plain(as_double).model), atol=1e-4)
    found = run.model.predict_proba(images.reshape(90, 1, 8, 8))
    assert np.array_equal(found, run.model.predict_proba(images))
    assert np.allclose(found, run.model.predict_proba(images.astype(float)), atol=1e-6)

"""Optimizers: on one vector they give what torch's own give on a module."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import fedgeom
from fedgeom import Ditto, FedAvg, SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative import MLP, SGD, AdamW, Effort, Linear, Objective, Tree
from fedgeom.methods.iterative.learners.torch_module import NetworkLearner
from tests.methods.iterative.torching import digits, torch


@pytest.mark.parametrize(
    ("optimizer", "torchs"),
    [
        (SGD(), torch.optim.SGD),
        (SGD(momentum=0.9, weight_decay=0.01), partial(torch.optim.SGD, momentum=0.9, weight_decay=0.01)),
        (
            SGD(momentum=0.9, weight_decay=0.01, nesterov=True),
            partial(torch.optim.SGD, momentum=0.9, weight_decay=0.01, nesterov=True),
        ),
        (AdamW(weight_decay=0.1), partial(torch.optim.AdamW, weight_decay=0.1)),
    ],
)
def test_steps_on_the_vector_are_torchs_steps_on_the_module(optimizer, torchs):
    learner = NetworkLearner(MLP(features=3, hidden=5), Linear())
    rng = np.random.default_rng(0)
    start, X, y = learner.start(4, 2, rng), rng.normal(size=(9, 4)), np.arange(9) % 2
    effort = Effort(steps=4, batch_size=None, learning_rate=0.05, optimizer=optimizer, max_grad_norm=0.5)
    found = learner.fit(start, X, y, effort=effort, rng=np.random.default_rng(1))

    module = torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)
    )
    values = [start[name] for name in start]
    with torch.no_grad():
        for parameter, value in zip(module.parameters(), values, strict=True):
            parameter.copy_(torch.from_numpy(value))
    steps = torchs(list(module.parameters()), 0.05)
    rows, labels = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y)
    for _ in range(4):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(module(rows), labels).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        steps.step()
    for parameter, name in zip(module.parameters(), start, strict=True):
        assert np.allclose(parameter.detach().numpy(), found[name], atol=1e-6)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_gradient_steps_are_torchs_to_the_bit(momentum, weight_decay):
    for nesterov in {False, momentum > 0}:
        options = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        mine, theirs = (torch.nn.Parameter(torch.linspace(-1, 1, 33)) for _ in range(2))
        ours = SGD(**options).build([mine], 0.3)
        other = torch.optim.SGD([theirs], 0.3, **options)
        for seed in range(4):
            slope = torch.randn(33, generator=torch.Generator().manual_seed(seed))
            mine.grad, theirs.grad = slope.clone(), slope.clone()
            ours.step()
            other.step()
            assert torch.equal(mine, theirs)
            assert torch.equal(mine.grad, slope)


def test_networks_train_without_torchs_compiler():
    code = (
        "import sys, numpy as np, fedgeom\n"
        "X = np.random.default_rng(0).normal(size=(60, 4))\n"
        "sites = fedgeom.split(X, (X[:, 0] > 0).astype(int), n_sites=3)\n"
        "fedgeom.run(fedgeom.FedAvg(network='mlp', n_rounds=1), sites)\n"
        "assert 'torch' in sys.modules and 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("secure", [False, True])
def test_momentum_that_is_kept_goes_on_from_round_to_round(secure):
    """Sites with the same rows, all in one step, train alike: rounds are then one training, cut into pieces."""
    (one, *_) = digits()
    sites = [SiteData(name, one.X, one.y) for name in "abc"]

    def weights(**changes):
        rule = FedAvg(
            network=MLP(features=4), batch_size=None, learning_rate=0.02, secure=secure, bits=64, **changes
        )
        return Tree(fedgeom.run(rule, sites, seed=1, policy=Policy()).model.parameters).flat()

    kept = weights(n_rounds=3, steps=2, optimizer=SGD(momentum=0.9, kept=True))
    np.testing.assert_allclose(kept, weights(n_rounds=1, steps=6, optimizer=SGD(momentum=0.9)), atol=1e-5)
    begun_anew = weights(n_rounds=3, steps=2, optimizer=SGD(momentum=0.9))
    assert np.abs(kept - begun_anew).max() > 1e-3


def test_only_what_trains_one_model_keeps_momentum():
    with pytest.raises(InputError, match="give momentum"):
        SGD(kept=True)
    with pytest.raises(InputError, match="Ditto given an optimizer with kept=True"):
        Ditto(optimizer=SGD(momentum=0.9, kept=True), network="mlp")


def test_no_optimizer_moves_frozen_arrays():
    learner = NetworkLearner(MLP(features=3), Linear())
    rng = np.random.default_rng(0)
    start, X, y = learner.start(4, 2, rng), rng.normal(size=(9, 4)), np.arange(9) % 2
    effort = Effort(steps=3, learning_rate=0.1, optimizer=SGD(momentum=0.9, weight_decay=0.1))
    terms = Objective(frozen=learner.head, strength=1.0)
    found = learner.fit(start, X, y, objective=terms, effort=effort, rng=rng)
    changed = {name for name in start if not np.array_equal(found[name], start[name])}
    assert changed == {name for name in start if name not in learner.head}


def test_looking_ahead_needs_momentum_and_plain_learners_take_plain_steps():
    with pytest.raises(InputError, match="give momentum"):
        SGD(nesterov=True)
    assert SGD().bare
    assert not SGD(momentum=0.5).bare
    assert not AdamW().bare
    with pytest.raises(InputError, match="takes plain gradient steps"):
        FedAvg(optimizer="adamw", n_rounds=1).plain(digits())

"""What a loss may look at, in a run: counts, the joint and the previous model, row weights, given arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import MLP, Effort, Linear, Loss, Objective, Tree
from fedgeom.methods.iterative.learners.torch_module import NetworkLearner
from fedgeom.methods.iterative.losses import cross_entropy
from tests.methods.iterative.torching import DIGITS, batch_of, digits, torch

SEEN: list[dict[str, object]] = []


@dataclass(frozen=True)
class Watching(Loss):
    """Cross-entropy that writes down what it was shown."""

    name: ClassVar[str] = "test-watching"
    looks_back: ClassVar[bool] = True

    def __call__(self, batch):
        previous = None if batch.previous is None else batch.previous.features(batch.inputs)
        SEEN.append(
            {
                "counts": batch.counts.tolist(),
                "near": torch.equal(batch.joint.features(batch.inputs), batch.features.detach()),
                "previous": previous,
                "given": dict(batch.given),
                "draw": float(torch.rand(1, generator=batch.generator)),
            }
        )
        return cross_entropy(batch, batch.scores)


def test_a_mean_counts_rows_by_their_weights():
    assert float(batch_of([[1.0], [4.0]], [0, 0]).mean(torch.tensor([1.0, 4.0]))) == 2.5
    weighed = batch_of([[1.0], [4.0]], [0, 0], weights=torch.tensor([3.0, 1.0]))
    assert float(weighed.mean(torch.tensor([1.0, 4.0]))) == pytest.approx((3 * 1 + 4) / 2)


def test_a_loss_sees_the_sites_counts_the_joint_and_the_previous_model():
    SEEN.clear()
    sites = digits()
    settings = DIGITS | {"batch_size": None}
    found = FedAvg(loss="test-watching", **settings).plain(sites)
    first, second = SEEN[:3], SEEN[3:6]
    for site, seen in zip(sites, first, strict=True):
        assert seen["counts"] == [float((site.y == label).sum()) for label in range(3)]
    assert all(seen["near"] for seen in SEEN)  # a round's first step is taken from the joint model
    assert all(seen["previous"] is None for seen in first)
    assert all(seen["previous"] is not None for seen in second)
    assert len({seen["draw"] for seen in SEEN}) == len(SEEN)  # each site and round draws its own
    plain = FedAvg(**settings).plain(sites)
    assert np.array_equal(found.model.parameters.flat(), plain.model.parameters.flat())


def test_the_loss_is_asked_for_by_name_and_travels_in_the_terms():
    rule = FedAvg(network="mlp", loss={"name": "calibrated", "tau": 0.5})
    assert rule.terms()["loss"] == {"name": "calibrated", "tau": 0.5}
    assert FedAvg.from_terms(rule.terms()) == rule
    with pytest.raises(InputError, match="loss='hinge' is unknown; there are: "):
        FedAvg(loss="hinge")


def test_a_learner_with_a_loss_of_its_own_refuses_others():
    with pytest.raises(InputError, match="losses are for networks"):
        FedAvg(loss="balanced", n_rounds=1).plain(digits())


def test_row_weights_and_given_arrays_reach_the_loss():
    SEEN.clear()
    learner = NetworkLearner(MLP(features=3), Linear())
    rng = np.random.default_rng(0)
    start, X, y = learner.start(4, 2, rng), rng.normal(size=(6, 4)), np.array([0, 1, 0, 1, 0, 1])
    effort = Effort(epochs=1, batch_size=None)
    given = Objective(loss=Watching(), given=Tree(centres=np.ones((2, 3), np.float32)))
    learner.fit(start, X, y, objective=given, effort=effort, rng=np.random.default_rng(1))
    assert SEEN[0]["given"]["centres"].shape == (2, 3)
    only_first = Objective(row_weights=np.array([6.0, 0, 0, 0, 0, 0]))  # a mean over six rows, of which one counts
    one = learner.fit(start, X, y, objective=only_first, effort=effort, rng=np.random.default_rng(1))
    alone = learner.fit(start, X[:1], y[:1], effort=effort, rng=np.random.default_rng(1))
    assert np.allclose(one.flat(), alone.flat(), atol=1e-6)

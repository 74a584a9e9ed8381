"""Heads of a network: what is trained travels, what is fixed is built anew everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import fedgeom
from fedgeom import FedAvg
from fedgeom.methods.iterative import Head
from tests.methods.iterative.torching import DIGITS, digits, torch


class Nearest(torch.nn.Module):
    """Scores are negative distances to fixed points."""

    def __init__(self, points):
        super().__init__()
        self.register_buffer("points", points, persistent=False)

    def forward(self, features):
        return -torch.cdist(features, self.points)


@dataclass(frozen=True)
class Prototypes(Head):
    """Each class has a fixed point on an axis."""

    name: ClassVar[str] = "test-prototypes"

    length: float = 2.0

    def build(self, features, classes):
        return Nearest(self.length * torch.eye(classes, features))


def test_the_nearest_fixed_prototype_is_predicted_and_nothing_of_it_travels(tmp_path):
    sites = digits()
    rule = FedAvg(head={"name": "test-prototypes", "length": 3.0}, **DIGITS)
    run = fedgeom.run(rule, sites, seed=1)
    assert not [name for name in run.model.parameters if name.startswith("head.")]
    X = sites[0].X
    learner = rule.build_learner()
    learner.bind(64, 3)
    Z = learner.features(run.model.parameters, X)
    nearest = np.linalg.norm(Z[:, None, :] - 3 * np.eye(3, Z.shape[1])[None], axis=2).argmin(axis=1)
    assert np.array_equal(run.model.predict_proba(X).argmax(axis=1), nearest)
    (tmp_path / "model").write_bytes(run.model.to_bytes())
    again = fedgeom.load_model(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), run.model.predict_proba(X))

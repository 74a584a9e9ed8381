"""FedRep: head, then body, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedRep
from fedgeom.methods.iterative import Logistic
from tests.methods.iterative.making import own, unlike

SITES = unlike(n_sites=2, rows=8)


def test_by_hand():
    """Two full steps for the intercept, then one for the weights; weights are averaged, intercepts stay."""
    learner = Logistic()
    data = [(site.X, (site.y == "class 1").astype(np.int64)) for site in SITES]
    share = [len(y) / sum(len(other) for _, other in data) for _, y in data]

    def step(model, X, y, name):
        return model | {name: model[name] - 0.3 * learner.gradient(model, X, y)[name]}

    def head(model, X, y):
        return step(step(model, X, y, "intercept"), X, y, "intercept")

    first = learner.start(2, 2, np.random.default_rng(0))
    weights, heads = first["weights"], [first["intercept"]] * 2
    for _ in range(2):
        trained = []
        for at, (X, y) in enumerate(data):
            model = head(first | {"weights": weights, "intercept": heads[at]}, X, y)
            heads[at] = model["intercept"]
            trained.append(step(model, X, y, "weights")["weights"])
        weights = sum(p * one for p, one in zip(share, trained, strict=True))
    found = FedRep(n_rounds=2, epochs=1, head_epochs=2, batch_size=None, learning_rate=0.3, scale="none").plain(
        SITES
    )
    assert found.model.parameters["weights"] == pytest.approx(weights, abs=1e-7)
    assert found.model.parameters["intercept"].tolist() == [0.0]  # nobody's head is in the joint model
    for at, (site, (X, y)) in enumerate(zip(SITES, data, strict=True)):
        last = head(first | {"weights": weights, "intercept": heads[at]}, X, y)
        assert own(found, site.name) == pytest.approx(last.flat(), abs=1e-6)

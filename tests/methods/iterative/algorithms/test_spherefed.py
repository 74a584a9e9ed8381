"""SphereFed: by hand, its fixed directions, and the head that its last round fits."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import SiteData, SphereFed
from fedgeom.errors import InputError
from fedgeom.methods.iterative import MLP, Orthonormal, SquaredError
from tests.methods.iterative.torching import DIGITS, digits, torch


def test_the_nearest_direction_is_predicted():
    assert torch.__version__
    sites = digits()
    rule = SphereFed(**(DIGITS | {"n_rounds": 4, "epochs": 3, "learning_rate": 0.3}))
    model = rule.plain(sites).model
    assert all(name.startswith("body.") for name in model.parameters)
    learner = rule.build_learner()
    learner.bind(64, 3)
    X, y = (np.concatenate([getattr(site, part) for site in sites]) for part in ("X", "y"))
    Z = learner.features(model.parameters, X)
    directions = Orthonormal().build(Z.shape[1], 3).directions.numpy()
    nearest = (Z @ directions.T).argmax(axis=1)
    assert np.array_equal(model.predict(X), nearest)
    assert np.mean(nearest == y) > 0.8
    assert (rule.head, rule.loss) == (Orthonormal(), SquaredError())


def test_by_hand():
    """One full step of one site from features that are the rows: W ← W − η·∂½‖cosines − one-hot‖²/∂W."""
    X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [2.0, 1.0]])
    y = np.array(["a", "b", "a", "b"])
    sites = [SiteData(f"s{k}", X, y) for k in range(2)]
    network = MLP(depth=0, features=2, embedding_dim=2)
    rule = SphereFed(network=network, n_rounds=1, steps=1, batch_size=None, learning_rate=0.1, scale="none")
    still = SphereFed(network=network, n_rounds=1, steps=1, batch_size=None, learning_rate=1e-12, scale="none")
    first, found = (one.plain(sites, 3).model.parameters for one in (still, rule))
    arrays = [np.asarray(first[name], float) for name in first]
    directions = Orthonormal().build(2, 2).directions.double().numpy()

    def loss(*w):
        Z = np.maximum(X @ w[0].T + w[1], 0) @ w[2].T + w[3]
        cosines = Z / np.linalg.norm(Z, axis=1, keepdims=True) @ directions.T
        return 0.5 * ((cosines - np.eye(2)[[0, 1, 0, 1]]) ** 2).sum(axis=1).mean()

    for at, name in enumerate(first):
        slope = np.zeros_like(arrays[at])
        for place in np.ndindex(slope.shape):
            moved = [[a.copy() for a in arrays] for _ in range(2)]
            for sign, ones in zip((1e-5, -1e-5), moved, strict=True):
                ones[at][place] += sign
            slope[place] = (loss(*moved[0]) - loss(*moved[1])) / 2e-5
        np.testing.assert_allclose(found[name], arrays[at] - 0.1 * slope, atol=2e-5)


@pytest.mark.parametrize("weights", ["rows", "sites"])
def test_the_last_round_fits_the_head_by_least_squares_over_all_rows(weights):
    sites = digits(rows=90)
    settings = DIGITS | {"epochs": 2, "learning_rate": 0.3, "weights": weights}
    rule = SphereFed(**(settings | {"n_rounds": 4}), calibration=True)
    run = fedgeom.run(rule, sites, seed=2)
    assert run.model.to_bytes() == rule.plain(sites, 2).model.to_bytes()
    plain = SphereFed(**(settings | {"n_rounds": 3})).plain(sites, 2).model  # the same body, three rounds long
    for name, array in plain.parameters.items():
        np.testing.assert_allclose(run.model.parameters[name], array, atol=1e-6)
    learner = rule.build_learner()
    learner.bind(64, 3)
    X, y = (np.concatenate([getattr(site, part) for site in sites]) for part in ("X", "y"))
    Z = learner.features(run.model.parameters, X)
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    G = Z.T @ Z
    expected = np.linalg.solve(G + 1e-4 * np.trace(G) / len(G) * np.eye(len(G)), Z.T @ np.eye(3)[y.astype(int)]).T
    np.testing.assert_allclose(run.model.parameters["head.weight"], expected, rtol=1e-3, atol=1e-3)
    assert np.mean(run.model.predict(X) == y) >= np.mean(plain.predict(X) == y) - 0.02
    assert "train.update" not in {entry.kind for entry in run.ledger}


def test_what_calibration_cannot_do_is_refused():
    with pytest.raises(InputError, match="n_rounds=2 or more"):
        SphereFed(n_rounds=1, calibration=True)
    with pytest.raises(InputError, match="another was given"):
        SphereFed(head="linear", calibration=True)

"""Networks small enough for pencil and paper: losses written from the papers, slopes by differences, in float64.

Two sites of five rows, two classes unevenly, one layer of three units with a ReLU, and a linear head. Nothing here
knows torch or our losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.methods.iterative import MLP

Arrays = dict[str, np.ndarray]
RATE, SEED = 0.2, 5
SETTINGS = {
    "network": MLP(depth=0, features=3),
    "steps": 1,
    "batch_size": None,
    "learning_rate": RATE,
    "scale": "none",
}
NEAR = {"rtol": 0, "atol": 2e-5}
"""Networks compute in single precision."""
BODY, LINEAR = ("body.0.weight", "body.0.bias"), ("head.weight", "head.bias")


def sites() -> list[SiteData]:
    """Two sites, one with one row of the second class, the other with four."""
    rng = np.random.default_rng(1)
    labels = ("aaaab", "abbbb")
    return [SiteData(f"s{k}", rng.normal(size=(5, 2)), np.array(list(one))) for k, one in enumerate(labels)]


def numbers(site: SiteData) -> np.ndarray:
    """A site's classes by number."""
    return (site.y == "b").astype(int)


def started(rule, classes: int = 2) -> Arrays:
    """The first model, in float64."""
    first = rule.build_learner().start(2, classes, np.random.default_rng([SEED, 0]))
    return {name: np.asarray(first[name], float) for name in first}


def features(w: Arrays, X: np.ndarray) -> np.ndarray:
    """z = max(0, Wx + b), (rows, 3)."""
    return np.maximum(X @ w["body.0.weight"].T + w["body.0.bias"], 0)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """The logarithms of the softmax, (rows, classes)."""
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def cross_entropy(scores: np.ndarray, y: np.ndarray) -> float:
    """−mean log softmax of the own class."""
    return float(-log_softmax(scores)[np.arange(len(y)), y].mean())


def step(w: Arrays, loss: Callable[[Arrays], float], names: Sequence[str]) -> Arrays:
    """One step of descent on these arrays, with slopes by differences."""
    found = dict(w)
    for name in names:
        slope = np.zeros_like(w[name])
        for place in np.ndindex(slope.shape):
            for sign in (1e-6, -1e-6):
                moved = w[name].copy()
                moved[place] += sign
                slope[place] += loss(w | {name: moved}) / (2 * sign)
        found[name] = w[name] - RATE * slope
    return found


def mean(several: Sequence[Arrays]) -> Arrays:
    """The mean of models; both sites have five rows."""
    return {name: np.mean([one[name] for one in several], axis=0) for name in several[0]}


def agrees(found, expected: Arrays, names: Sequence[str]) -> None:
    """Hold a model to the one that was computed here."""
    for name in names:
        np.testing.assert_allclose(np.asarray(found[name], float), expected[name], err_msg=name, **NEAR)

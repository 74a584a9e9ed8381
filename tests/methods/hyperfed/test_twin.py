"""HyperFed's variants against `twin.py`: losses, prototypes, weights, fine-tuning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative import MLP, Consistent, Poincare, Triplet
from tests.methods.hyperfed import twin

pytest.importorskip("torch")

RATE = 0.2
TRIPLET = twin.triplet(1.5)
TREE = {"a": "x", "b": "x", "c": "top", "x": "top"}
BRANCHES = [{0}, {1}, {2}, {0, 1}]
EDGES = [[0, 2, 3], [2, 0, 3], [3, 3, 0]]
NEAR = 2e-4
"""Networks are trained in single precision."""


def sites() -> list[SiteData]:
    """Draw three sites of 6, 9 and 12 rows."""
    rng = np.random.default_rng(3)
    found = []
    for at in range(3):
        rows = 6 + 3 * at
        y = np.arange(rows) % 3
        found.append(SiteData(f"s{at}", rng.normal(size=(rows, 3)) + np.eye(3)[y] * at, np.array(list("abc"))[y]))
    return found


def run(**changes: Any) -> fedgeom.Run:
    """Hold a run of few full-batch steps; updates are shown, so that no cipher is needed."""
    settings: dict[str, Any] = {
        "n_rounds": 1,
        "steps": 2,
        "batch_size": None,
        "learning_rate": RATE,
        "scale": "none",
        "network": MLP(features=4, depth=0, embedding_dim=3),
        "head": Poincare(slope=0.7),
        "loss": Triplet(margin=1.5, negatives="all"),
        "aggregation": Consistent(min_effective_sites=2.0),
        "personal": "none",
        "secure": False,
    }
    return fedgeom.run(fedgeom.HyperFed(**settings | changes), sites(), seed=5, policy=Policy(min_cohort=2))


def start(**changes: Any) -> tuple[list[str], list[tuple[int, ...]], np.ndarray]:
    """Return names, shapes and numbers of the first model: that of a round at next to no rate."""
    made = run(**changes | {"learning_rate": 1e-12, "personal": "none"}).model.parameters
    names = [name for name in made if name.startswith("body")]
    names += [name for name in made if name == "head.tangents"]
    arrays = [np.asarray(made[name], float) for name in names]
    return names, [a.shape for a in arrays], np.concatenate([a.ravel() for a in arrays])


def numbers(model: Any, names: list[str]) -> np.ndarray:
    return np.concatenate([np.ravel(model.parameters[name]) for name in names])


def changes_of(first: np.ndarray, shapes: Any, prototypes: Any, loss: Any = TRIPLET, steps: int = 2) -> np.ndarray:
    """Return what each site changes; ``prototypes``: for each site, None where they are trained."""
    found = []
    for site, points in zip(sites(), prototypes, strict=True):
        y = np.array(["abc".index(word) for word in site.y.tolist()])
        found.append(twin.descend(first, shapes, site.X, y, points, loss, RATE, steps) - first)
    return np.array(found)


LOSSES: dict[str, tuple[dict[str, Any], Any]] = {
    "triplet": ({}, TRIPLET),
    "geodesic": ({"loss": "geodesic"}, twin.geodesic),
    "softmax": ({"loss": {"name": "geodesic-softmax", "temperature": 0.6}}, twin.softmax(0.6)),
    "tree softmax": ({"loss": "tree-softmax", "class_tree": TREE}, twin.tree_softmax(BRANCHES)),
    "tree targets": (
        {"loss": {"name": "tree-targets", "softness": 0.8}, "class_tree": TREE},
        twin.tree_targets(EDGES, 0.8),
    ),
    "ideal": ({"head": Poincare(slope=1.0), "loss": "geodesic"}, twin.geodesic),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    settings, loss = LOSSES[name]
    names, shapes, first = start(**settings)
    head = fedgeom.HyperFed(**{"head": Poincare(slope=0.7)} | settings).head
    assert isinstance(head, Poincare)
    points = head.points(3, 3)
    if "class_tree" not in settings:  # three prototypes as far apart as can be, at the slope
        np.testing.assert_allclose(points @ points.T, head.slope**2 * (1.5 * np.eye(3) - 0.5), atol=1e-9)
    changes = changes_of(first, shapes, [points] * 3, loss)
    wanted = first + twin.min_norm_weights(changes, 2.0) @ changes
    np.testing.assert_allclose(numbers(run(**settings).model, names), wanted, atol=NEAR)
    assert np.abs(wanted - first).max() > 0.02


WEIGHTS: dict[str, tuple[Any, Any]] = {
    "mean": ("mean", lambda changes: np.array([6, 9, 12]) / 27),
    "free": (Consistent(min_effective_sites=1.0), lambda changes: twin.min_norm_weights(changes, 1.0)),
    "mixed": (Consistent(min_effective_sites=2.6), lambda changes: twin.min_norm_weights(changes, 2.6)),
    "raw": (
        Consistent(min_effective_sites=1.0, deviations="raw"),
        lambda changes: twin.min_norm_weights(changes, 1.0, raw=True),
    ),
    "line search": (
        Consistent(min_effective_sites=1.0, solver="line search", steps=3),
        lambda changes: twin.line_search_weights(changes, 1.0, 3, printed=False),
    ),
    "printed": (
        Consistent(min_effective_sites=1.0, solver="printed", steps=3),
        lambda changes: twin.line_search_weights(changes, 1.0, 3, printed=True),
    ),
    "printed and mixed": (
        Consistent(min_effective_sites=2.8, solver="printed", steps=3, deviations="raw"),
        lambda changes: twin.line_search_weights(changes, 2.8, 3, printed=True, raw=True),
    ),
    "printed, from rows": (
        Consistent(min_effective_sites=1.0, solver="printed", steps=2, deviations="raw", start="rows"),
        lambda changes: twin.line_search_weights(changes, 1.0, 2, printed=True, raw=True, start=(6, 9, 12)),
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name: str) -> None:
    aggregation, weigh = WEIGHTS[name]
    names, shapes, first = start()
    changes = changes_of(first, shapes, [Poincare(0.7).points(3, 3)] * 3)
    wanted = first + weigh(changes) @ changes
    np.testing.assert_allclose(numbers(run(aggregation=aggregation).model, names), wanted, atol=NEAR)


def test_the_weights_are_not_all_alike() -> None:
    _, shapes, first = start()
    changes = changes_of(first, shapes, [Poincare(0.7).points(3, 3)] * 3)
    found = [weigh(changes) @ changes for _, weigh in WEIGHTS.values()]
    for at, one in enumerate(found):
        for other in found[:at]:
            assert np.abs(one - other).max() > 10 * NEAR


def test_prototypes_that_are_trained() -> None:
    names, shapes, first = start(prototypes="shared")
    assert names[-1] == "head.tangents"
    changes = changes_of(first, shapes, [None] * 3)
    wanted = first + twin.min_norm_weights(changes, 2.0) @ changes
    np.testing.assert_allclose(numbers(run(prototypes="shared").model, names), wanted, atol=NEAR)
    assert np.abs(changes[:, -9:]).max() > 0.02


def test_prototypes_of_a_sites_own() -> None:
    names, shapes, first = start(prototypes="fixed")
    found = run(prototypes="fixed")
    own = [found.model.for_site(found.local[f"s{at}"]).parameters["head.points"] for at in range(3)]
    changes = changes_of(first, shapes, [np.asarray(points, float) for points in own])
    wanted = first + twin.min_norm_weights(changes, 2.0) @ changes
    np.testing.assert_allclose(numbers(found.model, names), wanted, atol=NEAR)


def test_a_few_more_steps_at_the_site() -> None:
    names, shapes, first = start()
    points = Poincare(0.7).points(3, 3)
    changes = changes_of(first, shapes, [points] * 3)
    joint = first + twin.min_norm_weights(changes, 2.0) @ changes
    found = run(personal="finetuned", tuning_steps=3)
    for at, more in enumerate(changes_of(joint, shapes, [points] * 3, steps=3)):
        own = found.model.for_site(found.local[f"s{at}"])
        np.testing.assert_allclose(numbers(own, names), joint + more, atol=NEAR)

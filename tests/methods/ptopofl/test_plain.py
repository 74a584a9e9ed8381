"""The conversation equals Algorithm 1, whatever the settings that Algorithm 1 knows; masks make no difference."""

from __future__ import annotations

from typing import Any

import pytest

from fedgeom import PTopoFL
from tests.methods.laws import assert_run_is, assert_run_is_plain
from tests.methods.ptopofl.making import hospitals
from tests.methods.ptopofl.simulation import simulate

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("solver", ["sgd", "exact"])
def test_a_run_is_algorithm_1(augment: bool, solver: Any) -> None:
    """To nine digits: a table with added columns may lie otherwise in memory, and then a product of matrices is
    added up in another order, which changes its last digit on some machines."""
    method = PTopoFL.published(n_rounds=3, augment=augment, solver=solver)
    assert_run_is(simulate, method, hospitals(), seed=5, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"secure": False, "n_clusters": 3},
        {"closeness": False, "beta": 0.0},
        {"weights": "sites"},
        {"aggregation": "median", "n_clusters": 2},
        {"personal": "finetuned"},
        {"personal": {"name": "interpolated", "mix": 0.3}},
        {"schedule": "cosine", "steps": 4},
        {"unit_box": True, "size_free": False, "n_repeats": 2},
        {"classes": ("well", "sick"), "C": 0.3},
        {"trust": "none"},
        {"trust": "none", "closeness": False, "n_clusters": 3},
        {"first_descriptor_round": 2, "n_clusters": 2},
    ],
)
def test_a_run_is_its_twin_whatever_the_settings(settings: dict[str, Any]) -> None:
    method = PTopoFL(**({"n_rounds": 3, "epochs": 2, "n_points": 30} | settings))
    assert_run_is(simulate, method, hospitals(n=8, rows=40), seed=2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"secure": False, "n_clusters": 3, "trust": "updates"},
        {"cluster_by": "classes", "scale": "site"},
        {"track_every": 1, "validation_fraction": 0.2},
    ],
    ids=str,
)
def test_a_run_is_the_same_without_masks(settings: dict[str, Any]) -> None:
    method = PTopoFL(**({"n_rounds": 3, "epochs": 2, "n_points": 30} | settings))
    assert_run_is_plain(method, hospitals(n=8, rows=40), seed=2)


TABLE_2: dict[str, Any] = {"closeness": False, "trust": "none"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"topo_inputs": True},
        {"topo_inputs": True, "augment": True},
        TABLE_2,
        TABLE_2 | {"first_descriptor_round": 1},
        {"first_descriptor_round": 1, "topo_inputs": True},
    ],
    ids=str,
)
def test_activations_and_the_48_numbers_as_in_a_run(changes: dict[str, Any]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    network = {"name": "mlp", "features": 5, "hidden": 6}
    method = PTopoFL(
        n_rounds=2, epochs=1, n_points=20, n_clusters=2, descriptor_input="activations", network=network, **changes
    )
    assert_run_is(simulate, method, hospitals(rows=30), seed=2, atol=1e-6)
    rows = PTopoFL(n_rounds=2, epochs=1, n_points=20, n_clusters=2, network=network, **changes)
    assert rows.terms() != method.terms()

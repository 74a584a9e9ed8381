"""Without masks, pTopoFL is what a run computes, also where sites are drawn, tracked or judged by their updates."""

from __future__ import annotations

from typing import Any

import pytest

from fedgeom import PTopoFL
from tests.methods.laws import assert_run_is_plain
from tests.methods.ptopofl.making import hospitals

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"secure": False, "clusters": 3, "trust": "updates"},
        {"cluster_by": "classes", "scale": "site"},
        {"track_every": 1, "validation": 0.2},
    ],
    ids=str,
)
def test_a_run_is_the_same_without_masks(settings: dict[str, Any]) -> None:
    method = PTopoFL(**({"rounds": 3, "epochs": 2, "points": 30} | settings))
    assert_run_is_plain(method, hospitals(n=8, rows=40), seed=2)


def test_activations_and_the_48_numbers_as_in_a_run() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    network = {"name": "mlp", "features": 5, "hidden": 6}
    method = PTopoFL(
        rounds=2, epochs=1, points=20, clusters=2, described="activations", network=network, topo_inputs=True
    )
    assert_run_is_plain(method, hospitals(rows=30), seed=2)

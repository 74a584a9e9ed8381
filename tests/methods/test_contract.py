"""Each kind of site keeps the contract, tried briefly: tests/testing/test_check.py tries all methods thoroughly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import fedgeom
from fedgeom.engines.run import change_of, update_method
from fedgeom.federation.method import METHODS, Method
from fedgeom.methods.catalogue import method_class
from fedgeom.testing import check_method
from tests.methods.ridge.making import blobs

UPDATABLE = fedgeom.Ridge(updatable=True)
ONE_EACH: dict[str, tuple[str, Callable[[], Method]]] = {
    "hulls": ("", lambda: fedgeom.Hulls(epsilon=0.2)),
    "ellipses": ("", fedgeom.Ellipses),
    "moments": ("", fedgeom.Moments),
    "poincare-map": ("", fedgeom.PoincareMap),
    "ridge": ("", lambda: fedgeom.Ridge(features="linear")),
    "regression": ("", fedgeom.Regression),
    "xclp": ("", lambda: fedgeom.XCLP(graph="anchors", n_anchors=6, n_rounds=2)),
    "xclp-training": (
        "",
        lambda: fedgeom.XCLPTraining(
            n_rounds=2, epochs=1, warmup_rounds=1, labels={"name": "xclp", "n_anchors": 6, "steps": 1}
        ),
    ),
    "shrunk": ("", lambda: fedgeom.Shrunk(n_rounds=2, n_folds=2)),
    "fedavg": ("", lambda: fedgeom.FedAvg(n_rounds=2, epochs=1)),
    "apple": ("", lambda: fedgeom.Apple(n_rounds=2, epochs=1)),
    "ptopofl": ("gudhi", lambda: fedgeom.PTopoFL(n_rounds=2, epochs=1, n_points=12)),
    "hyperfed": (
        "seal",
        lambda: fedgeom.HyperFed(n_rounds=2, steps=2, network=None, head="linear", loss="cross-entropy"),
    ),
}
"""A method for each class of sites, with settings that keep a run short, and what it needs beyond the core."""


@pytest.mark.parametrize("name", ONE_EACH)
def test_the_contract_in_brief(name: str) -> None:
    needed, make = ONE_EACH[name]
    if needed:
        pytest.importorskip(needed)
    check_method(make(), level="smoke")


def test_the_contract_in_brief_for_updates() -> None:
    run = fedgeom.run(UPDATABLE, blobs())
    check_method(update_method(UPDATABLE, run), change_of(blobs(seed=2), []), level="smoke")


def test_there_is_one_for_each_class_of_sites() -> None:
    ours = [method_class(name) for name in METHODS]
    kinds = {one.site for one in ours if one.__module__.startswith("fedgeom.")}
    assert kinds == {method_class(name).site for name in ONE_EACH}

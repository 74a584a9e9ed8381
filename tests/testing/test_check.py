"""Every method that comes with fedgeom keeps the contract, and what breaks it is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import ProtocolError
from fedgeom.extend import Method, Plain, answers
from fedgeom.federation.messages import encode
from fedgeom.federation.method import METHODS
from fedgeom.methods.moments.messages import SumMoments
from fedgeom.methods.moments.site import MomentsSite
from fedgeom.protocols.model_delivery import TakeResult
from fedgeom.testing import check_method, example_sites
from fedgeom.testing.adversary import spoilt_messages_are_refused

QUICK = {"rounds": 3, "epochs": 1}
SPREADING: dict[str, Any] = {"rounds": 2, "epochs": 1, "warm": 1}
OPEN = {"hidden_projection": False}
DEEP = ["Moon", "FedRoD", "FedLC", "SphereFed", "FedProto"]
SMALL = {"rounds": 2, "epochs": 1, "network": {"name": "mlp", "features": 4, "hidden": 4}}
ALGORITHMS = [
    "FedAvg", "FedProx", "Scaffold", "FedDyn", "FedAdam", "FedYogi", "Ditto", "PFedMe", "FedPer", "Interpolated",
    "LocalOnly", "FedAvgM", "FedNova", "FedRep", "FedBABU",
]  # fmt: skip

TREE: dict[str, Any] = {
    "class_tree": {"left": "both", "right": "both"},
    "loss": "tree-softmax",
    "aggregation": "mean",
}


def cases() -> list[Any]:
    """Return every method, with settings that keep a run short."""
    found: list[tuple[str, Any]] = [
        ("hulls", lambda: fedgeom.Hulls(epsilon=0.2)),
        ("hulls mapped", lambda: fedgeom.Hulls(epsilon=0.2, embedding="discriminant")),
        ("hulls shared", lambda: fedgeom.Hulls(epsilon=0.2, names="shared")),
        ("hulls shared mapped", lambda: fedgeom.Hulls(epsilon=0.2, names="shared", embedding="discriminant")),
        ("ellipses", fedgeom.Ellipses),
        ("moments", fedgeom.Moments),
        ("ridge", lambda: fedgeom.Ridge(features=["linear", "binned"])),
        ("xclp", lambda: fedgeom.XCLP(bits=64, hidden_projection=False, confidence="code")),
        ("xclp anchors", lambda: fedgeom.XCLP(graph="anchors", anchors=6, rounds=2)),
        (
            "xclp training",
            lambda: fedgeom.XCLPTraining(**SPREADING, labels={"name": "xclp", "anchors": 6, "steps": 1}),
        ),
        (
            "xclp training pairs",
            lambda: fedgeom.XCLPTraining(
                **SPREADING, labels={"name": "xclp", "graph": "pairs", "bits": 64} | OPEN
            ),
        ),
        ("xclp training network", lambda: fedgeom.XCLPTraining(**SPREADING, labels="network")),
        ("shrunk", lambda: fedgeom.Shrunk(rounds=2, folds=2)),
        ("ptopofl", lambda: fedgeom.PTopoFL(rounds=2, epochs=1, points=12)),
        (
            "ptopofl activations",
            lambda: fedgeom.PTopoFL(**SMALL, points=12, described="activations", topo_inputs=True),
        ),
        (
            "ptopofl activations later",
            lambda: fedgeom.PTopoFL(
                **SMALL, points=12, described="activations", first_described=1, closeness=False, trust="none"
            ),
        ),
        (
            "hyperfed",
            lambda: fedgeom.HyperFed(rounds=2, steps=2, network=None, head="linear", loss="cross-entropy"),
        ),
        ("hyperfed network", lambda: fedgeom.HyperFed(**SMALL)),
        ("hyperfed tree", lambda: fedgeom.HyperFed(**SMALL, **TREE)),
        ("fedavg open", lambda: fedgeom.FedAvg(**QUICK, aggregation="median")),
    ]
    found += [(name.lower(), lambda name=name: getattr(fedgeom, name)(**QUICK)) for name in ALGORITHMS]
    found += [(name.lower(), lambda name=name: getattr(fedgeom, name)(**SMALL)) for name in DEEP]
    needs = {
        "xclp": "seal",
        "xclp training pairs": "seal",
        "hyperfed": "seal",
        "hyperfed tree": "torch",
        "hyperfed network": "torch seal",
        "ptopofl": "gudhi",
        "ptopofl activations": "gudhi torch",
        "ptopofl activations later": "gudhi torch",
    }
    needs |= dict.fromkeys(map(str.lower, DEEP), "torch")
    return [
        pytest.param(make, id=name, marks=[pytest.mark.needs(one) for one in needs.get(name, "").split()])
        for name, make in found
    ]


@pytest.mark.full
@pytest.mark.parametrize("make", cases())
def test_our_methods_keep_the_contract(make, request) -> None:
    for mark in request.node.iter_markers("needs"):
        pytest.importorskip(mark.args[0])
    counts = check_method(make())
    assert min(counts.values()) > 0


def test_no_method_is_left_out() -> None:
    checked = {make.values[0]().name for make in cases()}
    ours = {name for name, cls in METHODS.items() if cls.__module__.startswith("fedgeom.")}
    assert ours <= checked


@pytest.mark.full
def test_everything_at_the_full_level() -> None:
    counts = check_method(fedgeom.Moments(), level="full")
    assert counts["lost sites"] >= 4 * 6
    assert counts["spoilt messages"] >= 200 * 6


def test_four_sites_are_wanted() -> None:
    with pytest.raises(AssertionError, match="at least 4"):
        check_method(fedgeom.Moments(), example_sites(3))


@dataclass(frozen=True, kw_only=True)
class OtherTwin(fedgeom.Moments):
    name: ClassVar[str] = "test other twin"

    def plain(self, sites: Any, seed: int = 0) -> Plain:
        moved = [fedgeom.SiteData(site.name, 0.99 * site.X, site.y) for site in sites]
        return super().plain(moved, seed)


class TalkativeSite(MomentsSite):
    """Refuses by what its rows are: all but those of the example."""

    @answers(SumMoments)
    def sum_moments(self, ask: SumMoments) -> Any:
        known = {site.name: site.X for site in example_sites()}
        if not np.array_equal(self.whole.X, known[self.name]):
            raise ProtocolError("other rows")
        return super().sum_moments(ask)


class CarelessSite(MomentsSite):
    """Fails at a model that it does not expect."""

    expected: ClassVar[dict[bytes, int]] = {}

    def answer(self, question: Any) -> Any:
        if isinstance(question, TakeResult):
            if not self.expected:
                self.expected[encode(question)] = 1
            self.expected[encode(question)] += 1
        return super().answer(question)


class DrawnAnew(MomentsSite):
    """Answers the same question differently each time."""

    @answers(SumMoments)
    def sum_moments(self, ask: SumMoments) -> Any:
        found = super().sum_moments(ask)
        noise = np.random.default_rng().integers(0, 2**20, found.vector.shape).astype(np.uint64)
        return self.contribute(ask, found.vector + noise)


def broken(site: type[MomentsSite], title: str) -> type[Method]:
    """Return Moments with another site."""
    return dataclass(frozen=True, kw_only=True)(type("Broken", (fedgeom.Moments,), {"name": title, "site": site}))


def test_a_twin_that_computes_something_else_is_found() -> None:
    with pytest.raises(AssertionError, match="differs from the plain twin"):
        check_method(OtherTwin)


def test_a_method_that_is_not_deterministic_is_found() -> None:
    with pytest.raises(AssertionError, match=r"differs from the plain twin|other bytes"):
        check_method(broken(DrawnAnew, "test drawn anew"))


def test_a_refusal_that_depends_on_rows_is_found() -> None:
    with pytest.raises(AssertionError, match="depends on the data"):
        check_method(broken(TalkativeSite, "test talkative"))


def test_a_site_that_fails_at_spoilt_messages_is_found() -> None:
    with pytest.raises(AssertionError, match="made the site fail"):
        spoilt_messages_are_refused(broken(CarelessSite, "test careless")(), example_sites(), 0, times=50)

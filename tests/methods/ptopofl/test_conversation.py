"""The coordinator of pTopoFL: clusters, trust and drift, each by what it is told to look at."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, PTopoFL, SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array, decode, unpack
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.training import Group
from fedgeom.methods.iterative.tree import State
from fedgeom.methods.ptopofl.method import TopoTrainingLoop
from fedgeom.methods.ptopofl.shapes import DescribeShape, ShapeDescription
from fedgeom.methods.ptopofl.site import TopoSite
from tests.methods.ptopofl.making import concepts, hospitals, vector

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


def test_full_blending_makes_one_model_and_none_makes_clusters() -> None:
    sites = concepts()
    common = {"n_rounds": 3, "n_clusters": 2, "cluster_by": "updates", "trust": "none"}
    one = fedgeom.run(PTopoFL(beta=1.0, **common), sites, seed=0)  # type: ignore[arg-type]
    assert all(np.allclose(vector(one, "h0"), vector(one, f"h{at}")) for at in range(8))
    two = fedgeom.run(PTopoFL(beta=0.0, **common), sites, seed=0)  # type: ignore[arg-type]
    assert np.array_equal(vector(two, "h0"), vector(two, "h1"))
    assert not np.allclose(vector(two, "h0"), vector(two, "h7"))


def test_updates_find_two_concepts_that_topology_cannot_see() -> None:
    sites = concepts()
    run = fedgeom.run(PTopoFL(n_rounds=6, cluster_by="updates", trust="none", n_clusters=None), sites, seed=0)
    found = run.metrics["clusters"]
    assert len({found[f"h{at}"] for at in range(4)}) == 1
    assert len({found[f"h{at}"] for at in range(4, 8)}) == 1
    assert found["h0"] != found["h7"]
    right = [np.mean(run.model.for_site(run.local[s.name]).predict(s.X) == s.y) for s in sites]
    alike = fedgeom.run(FedAvg(n_rounds=6), sites, seed=0)
    assert np.mean(right) > 0.85 > 0.7 > np.mean([np.mean(alike.model.predict(s.X) == s.y) for s in sites])


def test_clusters_and_trust_each_look_at_their_own_descriptors() -> None:
    """Judging sites by their classes must not change whom the shape of all rows brings together, and the reverse."""
    sites = hospitals(n=7, rows=40)

    def metrics(cluster_by: str, trust: str) -> dict[str, object]:
        method = PTopoFL(n_rounds=1, n_clusters=3, cluster_by=cluster_by, trust=trust, secure=False)  # type: ignore[arg-type]
        return fedgeom.run(method, sites, seed=1).metrics

    mixed = {pair: metrics(*pair) for pair in [("topology", "classes"), ("classes", "topology")]}
    rows, classes = metrics("topology", "topology"), metrics("classes", "classes")
    assert rows["clusters"] != classes["clusters"]
    assert rows["trust"] != classes["trust"]
    assert mixed["topology", "classes"]["clusters"] == rows["clusters"]
    assert mixed["topology", "classes"]["trust"] == classes["trust"]
    assert mixed["classes", "topology"]["clusters"] == classes["clusters"]
    assert mixed["classes", "topology"]["trust"] == rows["trust"]


def test_labels_that_mix_along_the_tree_lower_trust() -> None:
    rng = np.random.default_rng(0)
    sites = []
    for at in range(6):
        X = np.vstack([rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + 4])
        y = np.repeat(["a", "b"], 40)
        if at == 2:
            y = rng.permutation(y)
        sites.append(SiteData(f"h{at}", X, y))
    run = fedgeom.run(PTopoFL(n_rounds=1, trust="merges", tau=1.5), sites)
    trust = run.metrics["trust"]
    assert run.metrics["flagged"] == ["h2"]
    assert trust["h2"] < 0.5
    assert all(value == 1.0 for name, value in trust.items() if name != "h2")


def test_an_update_that_turns_away_lowers_trust() -> None:
    run = fedgeom.run(
        PTopoFL(n_rounds=2, cluster_by="none", trust="updates", tau=1.5), hospitals(n=7, flipped=[3])
    )
    assert run.metrics["flagged"] == ["h3"]


def test_a_site_whose_data_change_is_clustered_anew_and_learns_faster() -> None:
    sites = hospitals(n=6)
    asked: list[bytes] = []

    def change(name: str, request: bytes) -> str | None:
        if name == "h4" and b"topo.describe" in request:
            asked.append(request)
            if len(asked) == 2:
                sites[4].X[:] = np.round(sites[4].X) * 50
        return None

    method = PTopoFL(n_rounds=4, track_every=1, drift_limit=0.3, trust="none", n_clusters=2, secure=False)
    run = fedgeom.run(method, sites, interfere=change)
    drift = run.metrics["drift"]
    assert drift["h4"] > 0.3 > max(value for name, value in drift.items() if name != "h4")
    assert len(asked) == 4


def test_eq_9_without_change_is_small() -> None:
    run = fedgeom.run(PTopoFL(n_rounds=3, track_every=1, n_points=200), hospitals(rows=150))
    assert max(run.metrics["drift"].values()) < 1e-9  # all rows are looked at, so the descriptor cannot differ


@pytest.mark.parametrize("odd", [np.full(48, np.nan), np.zeros(47), np.zeros((48, 1)), np.zeros(48, np.uint8)])
def test_a_site_that_sends_no_descriptor_is_left_out_and_stops_nobody(
    odd: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = TopoSite.describe

    def describe(self: TopoSite, ask: DescribeShape) -> ShapeDescription:
        said = honest(self, ask)
        return msgspec.structs.replace(said, descriptor=Array.of(odd)) if self.name == "h1" else said

    monkeypatch.setattr(TopoSite, "describe", describe)
    run = fedgeom.run(PTopoFL(n_rounds=1, steps=1, n_clusters=1), hospitals(n=5, rows=20), seed=0)
    assert "not those asked for" in run.lost["h1"]
    assert run.metrics["sites"] == 4


@pytest.mark.parametrize("tracked", [0, 1])
def test_a_coordinator_regroups_only_where_the_terms_look_at_shapes_again(tracked: int) -> None:
    """Two clusters of three exchange a site after the first round; each cluster's two sums would differ by it."""
    method = PTopoFL(n_rounds=2, epochs=1, n_points=30, n_clusters=2, track_every=tracked, drift_limit=1e9)
    engine = EmbeddedEngine(method, hospitals(n=6, rows=30))
    talk = TopoTrainingLoop(method, Coordinator(engine, run=b"r" * 32, method=method.name, roster=engine.roster))
    real = talk.groups

    def groups(number: int, state: State, chosen: tuple[str, ...]) -> list[Group]:
        names = talk.members
        cut = (names[:3], names[3:]) if not number else (names[1:4], (names[0], *names[4:]))
        talk.cluster = {name: at for at, part in enumerate(cut) for name in part}
        return real(number, state, chosen)

    talk.groups = groups  # type: ignore[method-assign]
    talk.trust = talk.closeness = {}
    if tracked:
        assert talk.conduct()
    else:
        with pytest.raises(TooFewSitesError, match="told another group before"):
            talk.conduct()


def test_a_group_names_those_that_do_not_train_as_well() -> None:
    method = PTopoFL(n_rounds=3, epochs=1, n_points=30, n_clusters=2, participation=0.9, min_sites=3)
    recorded: list[TrainMasked] = []
    engine = EmbeddedEngine(method, hospitals(n=12, rows=30))
    deliver = engine.deliver

    def listen(requests: Any) -> Any:
        frames = [unpack(request) for request in requests.values()]
        recorded.extend(decode(f.body, TrainMasked) for f in frames if f.kind == TrainMasked.kind)
        return deliver(requests)

    engine.deliver = listen  # type: ignore[method-assign]
    TopoTrainingLoop(
        method, Coordinator(engine, run=b"r" * 32, method=method.name, roster=engine.roster)
    ).conduct()
    assert len({ask.group for ask in recorded}) == 2
    assert all(set(ask.ticket.participants) <= set(ask.group) for ask in recorded)
    assert any(set(ask.ticket.participants) < set(ask.group) for ask in recorded)

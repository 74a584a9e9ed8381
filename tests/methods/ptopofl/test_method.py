"""pTopoFL: the conversation equals Algorithm 1, every part can be switched, and the ledger says what is sent."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import fedgeom
from fedgeom import PTopoFL, SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.methods.iterative import FedAvg
from fedgeom.methods.iterative.tabular import TabularConversation
from fedgeom.methods.iterative.vectors import Layout
from fedgeom.methods.ptopofl.conversation import TopoConversation, merge_small
from fedgeom.methods.ptopofl.messages import Describe, Description
from fedgeom.methods.ptopofl.model import Shape
from fedgeom.methods.ptopofl.plain import plain

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


def hospitals(
    n: int = 6, rows: int = 60, columns: int = 4, seed: int = 0, flipped: Sequence[int] = ()
) -> list[SiteData]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=columns)
    found = []
    for at in range(n):
        X = rng.normal(size=(rows + 7 * at, columns)) * (1 + 0.3 * at)
        sick = X @ truth + 0.5 * rng.normal(size=len(X)) > 0
        found.append(SiteData(f"h{at}", X, np.where(sick ^ (at in flipped), "sick", "well")))
    return found


def concepts(n: int = 8, rows: int = 120, seed: int = 1) -> list[SiteData]:
    """Two groups of hospitals in which the same signs mean the opposite."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=5)
    found = []
    for at in range(n):
        X = rng.normal(size=(rows, 5))
        sign = 1 if at < n // 2 else -1
        found.append(
            SiteData(f"h{at}", X, np.where(sign * (X @ truth) + 0.3 * rng.normal(size=rows) > 0, "a", "b"))
        )
    return found


def vector(run: fedgeom.Run, name: str) -> np.ndarray:
    return np.asarray(run.local[name]["model"])


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("solver", ["sgd", "exact"])
def test_a_run_is_algorithm_1(augment: bool, solver: str) -> None:
    method = PTopoFL.published(rounds=3, augment=augment, solver=solver)
    sites = hospitals()
    run = fedgeom.run(method, sites, seed=5)
    twin = plain(method, sites, seed=5)
    assert set(run.local) == set(twin)
    for name, wanted in twin.items():
        assert np.array_equal(vector(run, name), wanted)


def test_masked_is_open_where_clusters_are_large_enough() -> None:
    sites = hospitals(n=8)
    settings = {"rounds": 3, "clusters": 2, "seed": 2}
    seed = settings.pop("seed")
    masked = fedgeom.run(PTopoFL(**settings), sites, seed=seed)  # type: ignore[arg-type]
    opened = fedgeom.run(PTopoFL(**settings, secure=False), sites, seed=seed)  # type: ignore[arg-type]
    if min(np.unique(list(opened.metrics["clusters"].values()), return_counts=True)[1]) < 3:
        assert masked.metrics["clusters"] != opened.metrics["clusters"]
    else:
        assert masked.model.to_bytes() == opened.model.to_bytes()


def test_one_cluster_without_trust_and_closeness_is_fedavg() -> None:
    sites = hospitals()
    ours = fedgeom.run(PTopoFL(rounds=4, cluster_by="none", trust="none", closeness=False), sites, seed=1)
    theirs = fedgeom.run(FedAvg(rounds=4), sites, seed=1)
    for name, array in theirs.model.parameters.items():
        assert np.array_equal(ours.model.parameters[name], array)
    assert not any(entry.kind.startswith("topo.") for entry in ours.ledger)


def test_full_blending_makes_one_model_and_none_makes_clusters() -> None:
    sites = concepts()
    common = {"rounds": 3, "clusters": 2, "cluster_by": "updates", "trust": "none"}
    one = fedgeom.run(PTopoFL(beta=1.0, **common), sites, seed=0)  # type: ignore[arg-type]
    assert all(np.allclose(vector(one, "h0"), vector(one, f"h{at}")) for at in range(8))
    two = fedgeom.run(PTopoFL(beta=0.0, **common), sites, seed=0)  # type: ignore[arg-type]
    assert np.array_equal(vector(two, "h0"), vector(two, "h1"))
    assert not np.allclose(vector(two, "h0"), vector(two, "h7"))


def test_updates_find_two_concepts_that_topology_cannot_see() -> None:
    sites = concepts()
    run = fedgeom.run(PTopoFL(rounds=6, cluster_by="updates", trust="none", clusters=None), sites, seed=0)
    found = run.metrics["clusters"]
    assert len({found[f"h{at}"] for at in range(4)}) == 1
    assert len({found[f"h{at}"] for at in range(4, 8)}) == 1
    assert found["h0"] != found["h7"]
    right = [np.mean(run.model.at(run.local[s.name]).predict(s.X) == s.y) for s in sites]
    alike = fedgeom.run(FedAvg(rounds=6), sites, seed=0)
    assert np.mean(right) > 0.85 > 0.7 > np.mean([np.mean(alike.model.predict(s.X) == s.y) for s in sites])


def test_clusters_and_trust_each_look_at_their_own_descriptors() -> None:
    """Judging sites by their classes must not change whom the shape of all rows brings together, and the reverse."""
    sites = hospitals(n=7, rows=40)

    def metrics(cluster_by: str, trust: str) -> dict[str, object]:
        method = PTopoFL(rounds=1, clusters=3, cluster_by=cluster_by, trust=trust, secure=False)  # type: ignore[arg-type]
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
    run = fedgeom.run(PTopoFL(rounds=1, trust="merges", tau=1.5), sites)
    trust = run.metrics["trust"]
    assert run.metrics["flagged"] == ["h2"]
    assert trust["h2"] < 0.5
    assert all(value == 1.0 for name, value in trust.items() if name != "h2")


def test_an_update_that_turns_away_lowers_trust() -> None:
    run = fedgeom.run(PTopoFL(rounds=2, cluster_by="none", trust="updates", tau=1.5), hospitals(n=7, flipped=[3]))
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

    method = PTopoFL(rounds=4, track_every=1, drift_limit=0.3, trust="none", clusters=2, secure=False)
    run = fedgeom.run(method, sites, interfere=change)
    drift = run.metrics["drift"]
    assert drift["h4"] > 0.3 > max(value for name, value in drift.items() if name != "h4")
    assert len(asked) == 4


def test_eq_9_without_change_is_small() -> None:
    run = fedgeom.run(PTopoFL(rounds=3, track_every=1, points=200), hospitals(rows=150))
    assert max(run.metrics["drift"].values()) < 1e-9  # all rows are looked at, so the descriptor cannot differ


def test_the_ledger_says_that_descriptor_and_model_are_sent() -> None:
    opened = fedgeom.run(PTopoFL.published(rounds=2), hospitals())
    shown = {entry.kind: entry.reveals for entry in opened.ledger}
    assert "shape of this site's rows" in shown["topo.description"]
    assert "trained parameters" in shown["train.update"]
    masked = fedgeom.run(PTopoFL(rounds=2), hospitals())
    assert "train.update" not in {entry.kind for entry in masked.ledger}
    private = fedgeom.run(PTopoFL(rounds=1, epsilon=1.0), hospitals())
    assert any("differentially private" in entry.reveals for entry in private.ledger)


def test_a_site_too_small_for_a_private_descriptor_is_named_at_once() -> None:
    sites = hospitals(n=4)
    sites[1] = SiteData("small", sites[1].X[:12], sites[1].y[:12])
    with pytest.raises(InputError, match="site 'small' has 12 rows; a private descriptor needs at least 20"):
        fedgeom.run(PTopoFL(rounds=1, epsilon=1.0), sites)


@pytest.mark.parametrize(("settings", "rounds"), [({}, {0}), ({"track_every": 2, "rounds": 6}, {0, 2, 4})])
def test_a_site_describes_itself_as_often_as_the_terms_say(settings: dict[str, int], rounds: set[int]) -> None:
    """Each round draws other points, so that many descriptors would tell more than one."""
    method, sites = PTopoFL(**settings), hospitals(n=3, rows=30)  # type: ignore[arg-type]
    engine = EmbeddedEngine(method, sites)
    asking = Sites(engine, run=bytes(32), method=method.name, roster=engine.roster)
    TabularConversation.agree(TopoConversation(method, asking))
    answered = {at for at in range(8) if asking.ask(Describe(round=at), of=["h0"], expect=Description)}
    assert answered == rounds


def test_private_descriptors_differ_from_run_to_run() -> None:
    sites = hospitals(rows=200)
    a, b = (fedgeom.run(PTopoFL(rounds=1, epsilon=1.0), sites, seed=0) for _ in range(2))
    assert a.metrics["trust"] != b.metrics["trust"]


def test_small_clusters_join_the_nearest_before_a_secure_sum() -> None:
    labels = np.array([0, 0, 0, 1, 2, 2, 2])
    gaps = np.ones((7, 7))
    gaps[3, 4:] = gaps[4:, 3] = 0.1
    assert merge_small(labels, gaps, 3).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert merge_small(labels, gaps, 1).tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert merge_small(np.array([0, 1]), np.ones((2, 2)), 3).tolist() == [0, 0]


def test_the_added_columns_by_hand() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    shape = Shape.of(square, 80, np.random.default_rng(0))
    assert shape.centre.tolist() == [0.5, 0.5]
    # Three merges at length 1 have equal shares, one loop has none: entropies log 3 and 0, nothing above the median.
    assert shape.constants == pytest.approx([math.log(3), 0.0, 0.0])
    assert shape.add_to(square)[:, 2] == pytest.approx([0.5] * 4)


def test_models_are_saved_and_read(tmp_path: object) -> None:
    sites = hospitals()
    for method in (PTopoFL(rounds=1), PTopoFL.published(rounds=1)):
        run = fedgeom.run(method, sites)
        own = run.model.at(run.local["h1"])
        own.save(f"{tmp_path}/own.safetensors")
        again = fedgeom.load_model(f"{tmp_path}/own.safetensors")
        assert np.array_equal(again.predict_proba(sites[1].X), own.predict_proba(sites[1].X))
    with pytest.raises(InputError, match=r"model\.at"):
        run.model.predict(sites[0].X)
    assert Layout.of(run.model.parameters).size == 4 + 4 + 1


@pytest.mark.parametrize("lost", ["h0", "h3", "h5"])
@pytest.mark.parametrize("step", ["topo.describe", "train.masked", "sum.confirm"])
def test_a_site_may_be_lost_at_any_step(lost: str, step: str) -> None:
    def lose(name: str, request: bytes) -> str | None:
        return "power cut" if name == lost and step.encode() in request else None

    run = fedgeom.run(PTopoFL(rounds=2), hospitals(), interfere=lose)
    assert lost in run.lost
    assert np.isfinite(run.model.predict_proba(hospitals()[0].X)).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cluster_by": "colour"}, "cluster_by='colour'"),
        ({"trust": "faith"}, "trust='faith'"),
        ({"beta": 1.5}, "beta=1.5"),
        ({"clusters": 0}, "clusters=0"),
        ({"points": 1}, "points"),
        ({"secure": True, "trust": "updates"}, "secure=False"),
        ({"epsilon": 1.0, "track_every": 2}, "one descriptor"),
        ({"epsilon": 1.0, "cluster_by": "classes"}, "one descriptor"),
    ],
)
def test_wrong_settings_are_refused_in_words(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        PTopoFL(**settings)  # type: ignore[arg-type]


def test_tiny_sites_take_part() -> None:
    sites = [*hospitals(n=4), SiteData("tiny", np.ones((1, 4)), np.array(["sick"]))]
    run = fedgeom.run(PTopoFL(rounds=2), sites)
    assert not run.lost
    assert math.isfinite(float(vector(run, "tiny").sum()))

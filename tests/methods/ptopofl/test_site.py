"""The site of pTopoFL: it describes itself as often as the terms say, and keeps its own model."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import PTopoFL, SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.geometry.topology.descriptors import descriptor
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.site import generator
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.iterative.tree import from_wire
from fedgeom.methods.ptopofl.method import TopoTrainingLoop
from fedgeom.methods.ptopofl.shapes import DescribeActivations, DescribePrivately, DescribeShape, ShapeDescription
from tests.methods.coordinators import RUN, fresh, overhear, refusals
from tests.methods.laws import assert_model_files_are_the_sites_own
from tests.methods.ptopofl.making import hospitals

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")
replace = msgspec.structs.replace


def agreed(method: PTopoFL, sites: list[SiteData], seed: int = 0) -> tuple[Coordinator, TopoTrainingLoop]:
    """Bring sites as far as they are before they describe their shape."""
    engine = EmbeddedEngine(method, sites)
    asking = Coordinator(engine, run=RUN, method=method.name, seed=seed, roster=engine.roster)
    talk = TopoTrainingLoop(method, asking)
    TrainingLoop.agree(talk)
    return asking, talk


@pytest.mark.parametrize("changes", [{}, {"augment": True}, {"secure": False}, {"scale": "site"}])
def test_each_site_keeps_its_own_model(changes: dict[str, Any]) -> None:
    method = PTopoFL(n_rounds=2, epochs=1, n_points=30, **changes)
    assert_model_files_are_the_sites_own(method, hospitals(rows=30), seed=3)
    site = fresh(method, hospitals()[0])
    assert (site.result(), site.model_file()) == ({}, b"")


def test_the_descriptor_is_that_of_the_scaled_rows() -> None:
    method, sites = PTopoFL(n_rounds=1, n_points=20), hospitals(n=3, rows=30)
    asking, talk = agreed(method, sites, seed=4)
    answers = asking.ask(DescribeShape(round=0), expect=ShapeDescription)
    for site in sites:
        Z = (site.X - talk.agreed.centre) / talk.agreed.spread
        rng = generator(4, 0, site.name, purpose=2)
        wanted = descriptor(Z, points=20, rng=rng, scale="none", size_free=True, repeats=1)
        np.testing.assert_array_equal(answers[site.name].descriptor.numpy(), wanted)
        assert answers[site.name].by_class.shape == (0,)
        assert answers[site.name].h0.shape == (0, 2)


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"cluster_by": "classes", "trust": "none"}, {"by_class"}),
        ({"cluster_by": "diagrams", "trust": "none"}, {"h0", "h1"}),
        ({"cluster_by": "none", "trust": "merges"}, {"merges"}),
    ],
)
def test_only_what_the_terms_need_is_described(settings: dict[str, Any], sent: set[str]) -> None:
    asking, _ = agreed(PTopoFL(**settings), hospitals(n=3, rows=30))
    answer = asking.ask(DescribeShape(round=0), expect=ShapeDescription)["h0"]
    arrays = {key for key in ("descriptor", "by_class", "h0", "h1") if getattr(answer, key).numpy().size}
    assert arrays | ({"merges"} if answer.merges else set()) == sent


def test_no_descriptor_without_terms_that_ask_for_it() -> None:
    asking, _ = agreed(PTopoFL(cluster_by="none", trust="none"), hospitals(n=3, rows=30))
    told = asking.ask(DescribeShape(round=0), expect=ShapeDescription)
    assert set(told.missing.values()) == {"the terms of this run ask for no open descriptor"}
    told = asking.ask(DescribePrivately(round=0), expect=ShapeDescription)
    assert set(told.missing.values()) == {"the terms of this run ask for one private descriptor at most"}


def test_who_joined_on_noise_sends_no_open_descriptor_and_one_private_one() -> None:
    method, sites = PTopoFL(epsilon=1.0), hospitals(n=3, rows=40)
    (reason,) = refusals(method, sites, DescribePrivately, lambda ask: DescribeShape(round=0))
    assert "no open descriptor" in reason
    (reason,) = refusals(method, sites, DescribePrivately, lambda ask: DescribePrivately(round=1))
    assert "one private descriptor at most" in reason


def test_asked_again_a_private_descriptor_is_the_very_same() -> None:
    """Or its noise would average out."""
    asking, _ = agreed(PTopoFL(epsilon=1.0), hospitals(n=3, rows=40))
    first, again = (asking.ask(DescribePrivately(round=0), expect=ShapeDescription)["h0"] for _ in range(2))
    assert first == again


def test_a_site_too_small_for_a_private_descriptor_is_named_at_once() -> None:
    sites = hospitals(n=4)
    sites[1] = SiteData("small", sites[1].X[:12], sites[1].y[:12])
    with pytest.raises(InputError, match="site 'small' has 12 rows; a private descriptor needs at least 20"):
        fedgeom.run(PTopoFL(n_rounds=1, epsilon=1.0), sites)


@pytest.mark.parametrize(("settings", "rounds"), [({}, {0}), ({"track_every": 2, "n_rounds": 6}, {0, 2, 4})])
def test_a_site_describes_itself_as_often_as_the_terms_say(settings: dict[str, int], rounds: set[int]) -> None:
    """Each round draws other points, so that many descriptors would tell more than one."""
    method, sites = PTopoFL(**settings), hospitals(n=3, rows=30)  # type: ignore[arg-type]
    engine = EmbeddedEngine(method, sites)
    asking = Coordinator(engine, run=bytes(32), method=method.name, roster=engine.roster)
    TrainingLoop.agree(TopoTrainingLoop(method, asking))
    answered = {at for at in range(8) if asking.ask(DescribeShape(round=at), of=["h0"], expect=ShapeDescription)}
    assert answered == rounds


def test_private_descriptors_differ_from_run_to_run() -> None:
    sites = hospitals(rows=200)
    a, b = (fedgeom.run(PTopoFL(n_rounds=1, epsilon=1.0), sites, seed=0) for _ in range(2))
    assert a.metrics["trust"] != b.metrics["trust"]


MLP: dict[str, Any] = {"network": {"name": "mlp", "features": 5, "hidden": 6}}


def test_the_first_activations_are_those_of_the_network_that_the_seed_gives() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    method, sites = (
        PTopoFL(n_rounds=2, n_points=20, descriptor_input="activations", **MLP),
        hospitals(n=3, rows=30),
    )
    asking, talk = agreed(method, sites, seed=4)
    answers = asking.ask(DescribeShape(round=0), expect=ShapeDescription)
    learner = method.build_learner()
    first = learner.start(4, 2, np.random.default_rng([4, 0]))
    for site in sites:
        Z = ((site.X - talk.agreed.centre) / talk.agreed.spread).astype(np.float32)
        wanted = descriptor(
            learner.features(first, Z), points=20, rng=generator(4, 0, site.name, purpose=2), scale="none",
            size_free=True,
        )  # fmt: skip
        np.testing.assert_allclose(answers[site.name].descriptor.numpy(), wanted, atol=1e-9)


def test_later_activations_are_those_of_the_model_that_is_given() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    sites = hospitals(n=6, rows=30)
    method = PTopoFL(
        n_rounds=4,
        epochs=1,
        n_points=20,
        n_clusters=2,
        descriptor_input="activations",
        first_descriptor_round=2,
        **MLP,
    )
    heard, _ = overhear(method, sites, seed=1)
    asked = [one for one in heard if isinstance(one.question, DescribeActivations)]
    assert {one.question.round for one in asked} == {2}
    assert len(asked) == 6
    trained = [one for one in heard if isinstance(one.question, TrainMasked)]
    assert all(len(one.question.group) == 6 for one in trained if one.question.round < 2)
    given, learner = from_wire(asked[0].question.given)["model"], method.build_learner()
    assert np.abs(given.flat() - learner.start(4, 2, np.random.default_rng([1, 0])).flat()).max() > 1e-3
    said = {one.name: one.answer.descriptor.numpy() for one in asked}
    assert len({tuple(numbers) for numbers in said.values()}) == 6


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        (DescribeActivations, lambda ask: replace(ask, round=0), "in this round"),
        (DescribeActivations, lambda ask: replace(ask, round=2), "no descriptor in round 3"),
        (DescribeActivations, lambda ask: replace(ask, given={}), "does not fit the model"),
        (DescribeActivations, lambda ask: replace(ask, agreed=bytes(32)), "other classes or another scale"),
    ],
)
def test_activations_are_described_when_and_of_what_the_terms_say(kind: Any, change: Any, says: str) -> None:
    method = PTopoFL(n_rounds=3, steps=1, n_points=12, descriptor_input="activations", first_descriptor_round=1)
    assert all(says in reason for reason in refusals(method, hospitals(n=3, rows=20), kind, change))


def test_rows_are_not_described_where_activations_are_and_the_other_way_round() -> None:
    sites = hospitals(n=3, rows=20)
    rows, _ = agreed(PTopoFL(n_rounds=3, n_points=12), sites)
    other = DescribeActivations(round=1, given={}, agreed=bytes(32))
    assert not rows.ask(other, expect=ShapeDescription).came
    late, _ = agreed(
        PTopoFL(n_rounds=3, n_points=12, descriptor_input="activations", first_descriptor_round=1), sites
    )
    assert not late.ask(DescribeShape(round=1), expect=ShapeDescription).came

"""The site of pTopoFL: it describes itself as often as the terms say, and keeps its own model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import PTopoFL, SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.geometry.topology.descriptors import descriptor
from fedgeom.methods.iterative.conversation import Conversation
from fedgeom.methods.iterative.site import generator
from fedgeom.methods.ptopofl.conversation import TopoConversation
from fedgeom.methods.ptopofl.messages import Describe, DescribePrivately, Description
from tests.methods.coordinators import RUN, fresh, refusals
from tests.methods.laws import assert_model_files_are_the_sites_own
from tests.methods.ptopofl.making import hospitals

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


def agreed(method: PTopoFL, sites: list[SiteData], seed: int = 0) -> tuple[Sites, TopoConversation]:
    """Bring sites as far as they are before they describe their shape."""
    engine = EmbeddedEngine(method, sites)
    asking = Sites(engine, run=RUN, method=method.name, seed=seed, roster=engine.roster)
    talk = TopoConversation(method, asking)
    Conversation.agree(talk)
    return asking, talk


@pytest.mark.parametrize("changes", [{}, {"augment": True}, {"secure": False}, {"scale": "site"}])
def test_each_site_keeps_its_own_model(changes: dict[str, Any]) -> None:
    method = PTopoFL(rounds=2, epochs=1, points=30, **changes)
    assert_model_files_are_the_sites_own(method, hospitals(rows=30), seed=3)
    site = fresh(method, hospitals()[0])
    assert (site.result(), site.model_file()) == ({}, b"")


def test_the_descriptor_is_that_of_the_scaled_rows() -> None:
    method, sites = PTopoFL(rounds=1, points=20), hospitals(n=3, rows=30)
    asking, talk = agreed(method, sites, seed=4)
    answers = asking.ask(Describe(round=0), expect=Description)
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
        ({"cluster_by": "diagrams", "trust": "none"}, {"descriptor", "h0", "h1"}),
        ({"cluster_by": "none", "trust": "merges"}, {"merges"}),
    ],
)
def test_only_what_the_terms_need_is_described(settings: dict[str, Any], sent: set[str]) -> None:
    asking, _ = agreed(PTopoFL(**settings), hospitals(n=3, rows=30))
    answer = asking.ask(Describe(round=0), expect=Description)["h0"]
    arrays = {key for key in ("descriptor", "by_class", "h0", "h1") if getattr(answer, key).numpy().size}
    assert arrays | ({"merges"} if answer.merges else set()) == sent


def test_no_descriptor_without_terms_that_ask_for_it() -> None:
    asking, _ = agreed(PTopoFL(cluster_by="none", trust="none"), hospitals(n=3, rows=30))
    told = asking.ask(Describe(round=0), expect=Description)
    assert set(told.missing.values()) == {"the terms of this run ask for no open descriptor"}
    told = asking.ask(DescribePrivately(round=0), expect=Description)
    assert set(told.missing.values()) == {"the terms of this run ask for one private descriptor at most"}


def test_who_joined_on_noise_sends_no_open_descriptor_and_one_private_one() -> None:
    method, sites = PTopoFL(epsilon=1.0), hospitals(n=3, rows=40)
    (reason,) = refusals(method, sites, DescribePrivately, lambda ask: Describe(round=0))
    assert "no open descriptor" in reason
    (reason,) = refusals(method, sites, DescribePrivately, lambda ask: DescribePrivately(round=1))
    assert "one private descriptor at most" in reason


def test_asked_again_a_private_descriptor_is_the_very_same() -> None:
    """Or its noise would average out."""
    asking, _ = agreed(PTopoFL(epsilon=1.0), hospitals(n=3, rows=40))
    first, again = (asking.ask(DescribePrivately(round=0), expect=Description)["h0"] for _ in range(2))
    assert first == again


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
    Conversation.agree(TopoConversation(method, asking))
    answered = {at for at in range(8) if asking.ask(Describe(round=at), of=["h0"], expect=Description)}
    assert answered == rounds


def test_private_descriptors_differ_from_run_to_run() -> None:
    sites = hospitals(rows=200)
    a, b = (fedgeom.run(PTopoFL(rounds=1, epsilon=1.0), sites, seed=0) for _ in range(2))
    assert a.metrics["trust"] != b.metrics["trust"]

"""Every method under every key of a site's policy: it is refused in words that name the key, or it runs."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import FedgeomError, TooFewSitesError
from fedgeom.federation.messages import Message, Refusal, unpack
from fedgeom.federation.method import METHODS
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.federation.runner import LEAVES
from fedgeom.federation.session import Session
from fedgeom.protocols.site import SummingSite
from fedgeom.testing.rehearsal import Rehearsal, example_sites
from tests.testing.test_check import cases

SITES = example_sites()
RUN = bytes(32)

KEYS: dict[str, Policy] = {
    "secure_only": Policy(secure_only=True),
    "max_rounds": Policy(max_rounds=1),
    "min_batch_size": Policy(min_batch_size=33),
    "min_rows_per_class": Policy(min_rows_per_class=13),
    "max_corner_share": Policy(max_corner_share=0.01),
    "max_features": Policy(max_features=2),
    "min_rows_per_feature": Policy(min_rows_per_feature=60),
}
"""Each key, at a value that some methods cannot meet with the example's 24 rows of two classes."""


def made(make: Any, request: pytest.FixtureRequest) -> Any:
    for mark in request.node.iter_markers("needs"):
        pytest.importorskip(mark.args[0])
    return make()


def concerned(key: str, method: Any) -> bool:
    """Say whether a policy's key has a word to say on a method."""
    trains = hasattr(method, "batch_size") and method.sends
    return {
        "secure_only": bool(method.shows_one_site()),
        "max_rounds": getattr(method, "n_rounds", 0) > 1,
        "min_batch_size": trains or getattr(method, "batch_size", None) is not None,
        "min_rows_per_class": True,
        "max_corner_share": isinstance(method, fedgeom.Hulls),
        "max_features": isinstance(method, fedgeom.Ridge),
        "min_rows_per_feature": isinstance(method, fedgeom.Ridge),
    }[key]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("make", cases())
def test_a_method_is_refused_in_words_that_name_the_key_or_runs(
    make: Any, key: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    method = made(make, request)
    engine = EmbeddedEngine(method, SITES, policy=KEYS[key])
    if not concerned(key, method):
        Session(method, RUN, 0, engine.roster).conduct(engine)
        return
    with pytest.raises(TooFewSitesError) as ended:
        Session(method, RUN, 0, engine.roster).conduct(engine)
    if f"{key} = " in str(ended.value):  # by the settings: the coordinator hears the key and its value
        assert str(ended.value).count(f"{key} = ") == len(SITES)
        if key != "min_rows_per_feature":  # that depends on the rows of all sites, which are counted first
            assert all(not memory for memory in engine.memories.values())  # it may be invited on other terms
    else:  # by the data: the site's own log has it, and nobody else
        assert str(ended.value).count(LEAVES) == len(SITES)
        assert key in caplog.text
        assert key not in str(ended.value)


@pytest.mark.parametrize("make", cases())
def test_a_strict_site_runs_what_shows_sums_only(make: Any, request: pytest.FixtureRequest) -> None:
    method = made(make, request)
    engine = EmbeddedEngine(method, SITES, policy=StrictPolicy(max_corner_share=1.0))
    if method.shows_one_site():
        with pytest.raises(FedgeomError, match="secure_only = true"):
            Session(method, RUN, 0, engine.roster).conduct(engine)
    else:
        Session(method, RUN, 0, engine.roster).conduct(engine)


SHOWING = {"train.update", "topo.description", "xclp.rows", "xclp.first", "xclp.letters"}
SHOWING |= {"hyperfed.letters", "hyperfed.shares"}
"""The answers that show numbers of one site: parameters, shapes, numbers of rows, distances, lengths and cosines."""


def test_every_answer_is_called_harmless_or_not_and_rightly() -> None:
    answers: dict[str, type[Message]] = {}
    for method in METHODS.values():
        if method.__module__.startswith("fedgeom."):
            answers |= {question.answer.kind: question.answer for question in method.site.understands().values()}
    assert {kind for kind, answer in answers.items() if not answer.harmless} == SHOWING


@pytest.mark.parametrize("make", cases())
def test_what_is_not_harmless_does_not_leave_even_where_the_terms_were_let_pass(
    make: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method that forgets to say what it shows is stopped by what it answers."""
    method = made(make, request)
    monkeypatch.setattr(type(method), "shows_one_site", lambda self: "")
    held = Rehearsal(method, SITES, policy=Policy(secure_only=True))
    with contextlib.suppress(FedgeomError):
        held.conduct()
    known = {question.answer.kind: question.answer for question in method.site.understands().values()}
    kinds = {unpack(one.reply).kind for one in held.exchanges} - {Refusal.kind}
    assert all(known[kind].harmless for kind in kinds)
    assert issubclass(method.site, SummingSite)

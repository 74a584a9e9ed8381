"""An honest run, written down."""

from __future__ import annotations

import fedgeom
from fedgeom.federation.messages import encode
from fedgeom.testing.examples import example_sites
from fedgeom.testing.rehearsal import Rehearsal, refused


def test_every_exchange_can_be_played_again_and_gives_the_same_answer() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).hold()
    assert held.steps == 8
    assert len(held.exchanges) == 4 * 8
    for one in held.exchanges:
        reply, memory = held.runner(one.site).answer(one.request, one.after)
        assert refused(reply) == ""
        assert memory == one.after
        assert reply == one.reply


def test_a_question_put_into_the_runs_frame_is_the_request() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).hold()
    one = held.exchanges[0]
    question = held.question(one)
    assert held.request(question, encode(question)) == one.request


def test_a_refusal_has_a_reason() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).hold()
    last = held.exchanges[-1]
    reply, memory = held.runner(last.site).answer(last.request, None)
    assert "before it joined" in refused(reply)
    assert memory == b""

"""Checks against a coordinator that lies: spoilt messages, and the standard tricks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import Question, encode
from fedgeom.federation.runner import SiteRunner
from fedgeom.protocols.join.messages import Hello, Share
from fedgeom.protocols.secure_sum.messages import Confirm, SumQuestion, Unmask, hash_question
from fedgeom.testing.rehearsal import CheckContext, RecordedExchange, Rehearsal, refused

Variant = tuple[str, Question]
"""What the coordinator does, and the question it then asks."""

SMOKE_MESSAGES = 5
"""How many messages are spoilt at the level "smoke"."""


def refuses_spoilt_messages(context: CheckContext) -> int:
    """A site answers a spoilt message, refuses it or cannot read it, and a refusal does not change its memory."""
    rng = np.random.default_rng(context.seed)
    held = context.rehearsal if context.level == "smoke" else context.rehearsal_with_holdout
    exchanges = _one_of_each_kind(held)
    if context.level == "smoke":
        drawn = np.resize(rng.permutation(len(exchanges)), SMOKE_MESSAGES)
        exchanges = [exchanges[at] for at in drawn.tolist()]
    times = {"smoke": 1, "quick": 20, "full": 200}[context.level]
    for one in exchanges:
        runner = held.new_runner(one.site, strict=True)
        for _ in range(times):
            _answer_spoilt(runner, one, _spoil(one.request, rng))
    return times * len(exchanges)


def _answer_spoilt(runner: SiteRunner, one: RecordedExchange, spoilt: bytes) -> None:
    try:
        reply, memory = runner.answer(spoilt, one.before)
    except DecodeError:
        return
    except Exception as error:
        raise AssertionError(f"a spoilt {one.frame.kind!r} made the site fail: {error!r}") from error
    left = memory and msgspec.msgpack.decode(memory).get("left")
    if refused(reply) and not left:
        assert memory == (one.before or b""), f"a refused {one.frame.kind!r} changed the site's memory"


def _spoil(request: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, double or add a few bytes."""
    data = bytearray(request)
    way = int(rng.integers(4))
    at = int(rng.integers(len(data)))
    if way == 0:
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
    elif way == 1:
        del data[at : at + int(rng.integers(1, 9))]
    elif way == 2:
        data[at:at] = data[at : at + int(rng.integers(1, 9))]
    else:
        data[at:at] = rng.bytes(int(rng.integers(1, 5)))
    return bytes(data)


def refuses_tricks(context: CheckContext) -> int:
    """A site refuses the standard tricks of a coordinator that wants one site's numbers."""
    held = context.rehearsal_with_holdout
    runners = {name: held.new_runner(name) for name in held.names}
    tried = 0
    for one in _one_of_each_kind(held):
        question = held.question(one)
        lies: list[tuple[str, Question, bytes | None]]
        lies = [(trick, lie, one.after) for trick, lie in _tricks(question, one.site)]
        if not isinstance(question, Hello):
            lies.append(("asks before the site joined", question, None))
        for trick, lie, memory in lies:
            try:
                reply, _ = runners[one.site].answer(held.request(lie, encode(lie)), memory)
            except DecodeError:
                continue
            assert refused(reply), f"a coordinator that {trick} gets an answer to {lie.kind!r}"
        tried += len(lies)
    assert tried, "the method asks nothing"
    return tried


def _tricks(question: Question, site: str) -> Iterator[Variant]:
    """Yield questions that a site which has answered ``question`` must refuse."""
    replace = msgspec.structs.replace
    if isinstance(question, Hello):
        yield "invites again with another number of sums", replace(question, rounds=question.rounds + 1)
        yield "invites again with another seed", replace(question, seed=question.seed + 1)
        more = tuple(sorted([*question.participants, "a-stranger"]))
        yield "invites again with somebody more who may take part", replace(question, participants=more)
        yield "invites with an unknown term", replace(question, terms=question.terms | {"unheard of": 1})
        yield "runs another release", replace(question, release="999.0")
    elif isinstance(question, Share):
        others = [name for name in sorted(question.cohort) if name != site]
        few = {name: question.cohort[name] for name in (site, others[0])}
        yield "announces another cohort", replace(question, cohort=few)
    elif isinstance(question, SumQuestion):
        yield from _sum_tricks(question, site)
    elif isinstance(question, Confirm):
        gone = next(name for name in question.alive if name != site)
        alive = tuple(name for name in question.alive if name != gone)
        yield "confirms a second list", replace(question, alive=alive, dropped=(*question.dropped, gone))
        yield "calls a site alive and dropped", replace(question, dropped=(*question.dropped, gone))
        yield "leaves a site out of both lists", replace(question, alive=alive)
        yield "confirms another round", replace(question, round=question.round + 1)
    elif isinstance(question, Unmask):
        gone = next(name for name in question.alive if name != site)
        alive = tuple(name for name in question.alive if name != gone)
        yield "unmasks without signatures", replace(question, signatures={})
        yield "unmasks a second list", replace(question, alive=alive, dropped=(*question.dropped, gone))
        yield (
            "unmasks with forged signatures",
            replace(question, signatures=dict.fromkeys(question.alive, bytes(64))),
        )


def _sum_tricks(question: SumQuestion, site: str) -> Iterator[Variant]:
    ticket = question.ticket
    others = tuple(name for name in ticket.participants if name != site)
    without = tuple(name for name in ticket.participants if name != others[0])

    def made_out(**changes: Any) -> SumQuestion:
        """Return the question with another ticket, honestly stamped."""
        blank = msgspec.structs.replace(question, ticket=msgspec.structs.replace(ticket, **changes))
        stamp = msgspec.structs.replace(blank.ticket, question_hash=hash_question(blank))
        return msgspec.structs.replace(blank, ticket=stamp)

    yield "sums the same over one site fewer", made_out(participants=without)
    yield "sums over the site alone", made_out(participants=(site,))
    yield "sums without the site", made_out(participants=others)
    yield "sums in a round that was not announced", made_out(round=10_000)
    yield "sums in another ring", made_out(modulus="97")
    yield "changes the members", made_out(members=without, participants=without)
    stale = msgspec.structs.replace(ticket, question_hash=bytes(32))
    yield "does not stamp the ticket", msgspec.structs.replace(question, ticket=stale)


def _one_of_each_kind(held: Rehearsal) -> list[RecordedExchange]:
    """Return the first and the last question of each kind, of a site that answered it."""
    first: dict[str, RecordedExchange] = {}
    last: dict[str, RecordedExchange] = {}
    for one in held.exchanges:
        if not refused(one.reply):
            first.setdefault(one.frame.kind, one)
            last[one.frame.kind] = one
    found = {(one.step, one.site): one for one in (*first.values(), *last.values())}
    return list(found.values())

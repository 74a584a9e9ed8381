"""Spoilt messages against both ends: refused in words, quickly, in little memory, and never taken for good ones.

5,000 messages in the first tier of tests, 40,000 in the second; `FEDGEOM_FUZZ` sets another number. Half of them are
tried against each end; ``pytest -s`` shows how they ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedgeom
import fedgeom.methods
from fedgeom.crypto.neighbours import COMPLETE_UP_TO
from fedgeom.engines.check import check_aligned
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import DecodeError, FedgeomError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.messages import Array, Message, Refusal, decode, encode, pack, read_answer, unpack
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.policy import Policy
from fedgeom.methods.ridge.update import RidgeUpdate
from fedgeom.protocols.fixed_point import RING
from fedgeom.protocols.secure_sum.messages import SumQuestion, hash_question
from fedgeom.protocols.site import OWN_RULES, Contribution, SummingSite
from tests.federation.fuzzing import (
    RUN,
    SPOILT,
    Exchange,
    arrays_in,
    exchanges,
    no_longer_than,
    read,
    restamp,
    sites_for,
    small_sites,
    spoil,
    spoil_arrays,
)
from tests.tiers import FULL

COUNT = int(os.environ.get("FEDGEOM_FUZZ", "40000" if FULL else "5000"))
HALF = -(-COUNT // 2)
"""So many against the sites, as many against the coordinator."""
BATCH = 250
Rng = random.Random
SECONDS = 10.0
"""No message may take more processor time; honest ones take milliseconds."""
MEGABYTES = 64
"""No message of a few kB may make us allocate more."""

quietly = settings(
    max_examples=-(-HALF // BATCH),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def kinds_of_questions() -> set[str]:
    """Return every kind of question of every method that is tried."""
    return {kind for method in SPOILT for kind in method.site.understands()}


TOLD_ONCE = {
    "ellipses.take-model", "ellipses.tree", "hulls.take-model", "model.take", "names.seal",
    "xclp.collect", "xclp.read-model", "xclp.weigh",
    "train.begin", "train.open", "train.among-all", "train.finish", "shrunk.take-evidence", "ridge.solution",
    "hyperfed.compare",
    "semi.embed", "prepare.seal", "topo.describe.activations",
}  # fmt: skip
"""What a coordinator makes of sums and tells the sites: another thing is told once as well as the true one, and then
nothing else. What a site refuses of it depends on no data (`same_for_twins`)."""


def close(exchange: Exchange, data: bytes) -> bool:
    """Say whether a site may answer a spoilt question: it says what the true one said, or what is told once.

    A coordinator chooses the terms of a run (join.hello), before a steward approves them; all else follows from these
    and from what others signed, sealed or were asked.
    """
    kind = exchange.question
    told: Any = read(data, kind)
    true: Any = read(exchange.request, kind)
    if told is None:
        return False
    if kind.kind in TOLD_ONCE or kind.kind == "join.hello":
        return True
    if kind.kind == "xclp.ask-rows":  # the letters were opened before, when the names were sealed
        return (set(told.members), told.hide) == (set(true.members), true.hide)
    if kind.kind == "xclp.begin":  # how many rows the others have a site cannot know
        return told.hashing == true.hashing and set(told.partners) <= set(true.partners)
    if kind.kind == "xclp.relay":  # fewer letters: a partner was lost
        return told.hashing == true.hashing and (
            told.letters.items() <= true.letters.items() and (told.number == true.number or not told.letters)
        )
    if kind.kind == "hyperfed.relay":
        return told.letters.items() <= true.letters.items() and (
            (told.round, told.number) == (true.round, true.number) or not told.letters
        )
    if kind.kind == "join.draw" and len(told.cohort) <= COMPLETE_UP_TO < len(true.cohort):  # groups draw with few
        return False
    if kind.kind == "join.meet" and (told.numbers, told.draw) != (true.numbers, true.draw):
        return not told.numbers and not told.draw and len(told.cohort) <= COMPLETE_UP_TO
    if kind.kind in ("join.meet", "join.draw", "names.open", "names.hold"):  # fewer: a site was lost
        field = "sealed" if kind.kind.startswith("names.") else "cohort"
        here, all_of_them = getattr(told, field), getattr(true, field)
        return here.items() <= all_of_them.items() and len(here) >= 3
    if kind.kind == "join.share":  # another ciphertext opens to another secret, and then no letter opens
        return set(told.ciphertexts) <= set(true.ciphertexts)
    if kind.kind == "sum.witness":  # which question the others masked for a witness cannot know; it signs one list
        outside = exchange.runner.identity.name not in told.participants
        fits = {*told.alive, *told.dropped} == set(told.participants) <= set(told.members) == set(true.members)
        return fits and outside and signable(told)
    if isinstance(told, SumQuestion):
        return told.ticket.question_hash == hash_question(told) and settled(told) == settled(true)
    if (
        kind.kind == "sum.confirm" and told.round == true.round
    ):  # who is alive a site cannot know; it signs one list
        together = [{*m.alive, *m.dropped} for m in (told, true)]
        return together[0] == together[1] and exchange.runner.identity.name in told.alive and signable(told)
    if kind.kind in ("sum.confirm", "sum.unmask"):
        lists = [(set(m.alive), set(m.dropped)) for m in (told, true)]  # of this round, or of one before
        return lists[0] == lists[1] and 0 <= told.round <= true.round
    return bool(told == true)


def signable(told: Any) -> bool:
    """Say whether a list of the living is one that a site may sign: everybody once, and enough alive."""
    return len(set(told.alive)) >= 3 and not set(told.alive) & set(told.dropped)


def settled(question: Any) -> list[Any]:
    """Return what the terms of the run settle in a question."""
    plan = getattr(question, "plan", question)
    return [getattr(plan, name, None) for name in ("epsilon", "curvature")]


def check_site(exchange: Exchange, data: bytes) -> str:
    """Put a spoilt question to a site; return how it ended."""
    try:
        with no_longer_than(SECONDS):
            reply, after = exchange.runner.answer(data, exchange.before)
    except DecodeError:
        return "no frame"
    same_for_twins(exchange, data, reply, after)
    if unpack(reply).kind == Refusal.kind:
        decode(unpack(reply).body, Refusal)
        assert has_left(exchange, after) or after == (exchange.before or b""), (
            "a refusal changed what the site remembers"
        )
        return "refused"
    asked = unpack(data)
    if asked.kind == unpack(exchange.request).kind:
        read_answer(unpack(reply), exchange.question.answer)
        assert asked.method == exchange.runner.method.name
        assert exchange.before is None or asked.run == RUN
        assert close(exchange, data), f"a site answered {read(data, exchange.question)}"
        answered_once(exchange, data)
    return "answered"


def answered_once(exchange: Exchange, data: bytes) -> None:
    """Put a question to a site that has answered the true one of its kind and round: only the same is answered."""
    told, true = read(data, exchange.question), read(exchange.request, exchange.question)
    numbers = [[getattr(one, name, None) for name in ("round", "number")] for one in (told, true)]
    if isinstance(told, SumQuestion) or exchange.question in OWN_RULES or numbers[0] != numbers[1]:
        return
    reply, after = exchange.runner.answer(data, exchange.after)
    if unpack(reply).kind == Refusal.kind:
        assert after == exchange.after
    else:
        assert encode(told) == encode(true), f"a site that answered {true} answered {told} as well"  # type: ignore[arg-type]


def same_for_twins(exchange: Exchange, data: bytes, reply: bytes, after: bytes) -> None:
    """Put a question to a site with other data: it ends the same, in the same words, or one of them leaves."""
    other, left = exchange.twin.answer(data, exchange.before)
    if not (has_left(exchange, after) or has_left(exchange, left)):
        said = [decode(unpack(one).body, Refusal) for one in (reply, other) if unpack(one).kind == Refusal.kind]
        assert len(set(said)) == len(said) // 2, f"two sites with other data say {said}"


def has_left(exchange: Exchange, memory: bytes) -> bool:
    return bool(memory) and msgspec.msgpack.decode(memory, type=exchange.runner.site.memory_type).left


def try_many(side: str, check: Callable[[Exchange, bytes], str], spoilt: Callable[[Exchange, Rng], bytes]) -> None:
    """Try as many spoilt messages as said, of every kind, and tell how they ended."""
    ended: Counter[str] = Counter()
    kinds: Counter[str] = Counter()

    @quietly
    @given(seed=st.integers(0, 2**63))
    def batch(seed: int) -> None:
        rng, known = random.Random(seed), exchanges()
        for _ in range(BATCH):
            exchange = rng.choice(known)
            data = spoilt(exchange, rng)
            try:
                ended[check(exchange, data)] += 1
            except BaseException as error:
                error.add_note(f"{side}, question {exchange.question.kind}: {data.hex()[:4000]}")
                raise
            kinds[exchange.question.kind] += 1

    batch()
    print(f"{side}: {ended.total():,} spoilt messages, {dict(ended)}, of {len(kinds)} kinds")
    assert ended.total() >= HALF
    assert COUNT < 10_000 or set(kinds) == kinds_of_questions()


@pytest.mark.deeper
def test_a_site_answers_refuses_or_raises_decode_error_whatever_comes() -> None:
    requests = [exchange.request for exchange in exchanges()]

    def spoilt(exchange: Exchange, rng: Rng) -> bytes:
        data = spoil(exchange.request, requests, rng)
        return restamp(data, exchange.question) if rng.random() < 0.3 else data

    try_many("site", check_site, spoilt)


def test_an_array_of_another_shape_or_type_is_refused_in_words() -> None:
    """It is a valid message all the same: what an array must be is for each handler to say."""
    rng = random.Random(0)
    first: dict[tuple[str, str], Exchange] = {}
    for exchange in exchanges():
        frame = unpack(exchange.request)
        if any(arrays_in(msgspec.msgpack.decode(frame.body))):
            first.setdefault((frame.method, frame.kind), exchange)
    assert len(first) > 50
    ended: Counter[str] = Counter()
    for exchange in first.values():
        for _ in range(max(40, COUNT // 400)):
            data = restamp(spoil_arrays(exchange.request, rng), exchange.question)
            try:
                ended[check_site(exchange, data)] += 1
            except BaseException as error:
                error.add_note(f"question {exchange.question.kind}: {data.hex()[:4000]}")
                raise
    assert ended.total() > 2000


class Replay:
    """An engine with one site, which sends the given bytes."""

    names = ("anna",)

    def __init__(self, reply: bytes):
        self.reply = reply

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name in requests:
            yield name, self.reply


def check_coordinator(exchange: Exchange, data: bytes) -> str:
    """Answer a question with spoilt bytes; return how the coordinator took it."""
    question = exchange.question
    sites = Coordinator(Replay(data), run=RUN, method=exchange.runner.method.name)
    asked = decode(unpack(exchange.request).body, question)
    with no_longer_than(SECONDS):
        answers = sites.ask(asked, expect=question.answer)
    if "anna" in answers.missing:
        assert answers.missing["anna"] or unpack(data).kind == Refusal.kind
        assert not answers
        return "missing"
    taken = answers["anna"]
    frame = unpack(data)
    assert (frame.run, frame.method, frame.kind) == (RUN, exchange.runner.method.name, question.answer.kind)
    assert type(taken) is question.answer
    assert same(decode(encode(taken), question.answer), taken), "what was read is no message that could be written"
    for field in taken.__struct_fields__:
        if isinstance(value := getattr(taken, field), Array):
            assert value.numpy().nbytes <= len(data)
    return "taken"


def same(one: Message, other: Message) -> bool:
    return encode(one) == encode(other)


@pytest.mark.deeper
def test_the_coordinator_takes_valid_answers_only_whatever_comes() -> None:
    replies = [exchange.reply for exchange in exchanges()]
    try_many("coordinator", check_coordinator, lambda exchange, rng: spoil(exchange.reply, replies, rng))


@pytest.mark.deeper
@pytest.mark.parametrize("side", ["site", "coordinator"])
def test_spoilt_messages_take_little_memory(side: str) -> None:
    rng, known = random.Random(side), exchanges()
    pool = [exchange.request if side == "site" else exchange.reply for exchange in known]
    check = check_site if side == "site" else check_coordinator
    for exchange in known:  # what is imported or cached on the way is not the message's doing
        check(exchange, exchange.request if side == "site" else exchange.reply)
    tracemalloc.start()
    try:
        for _ in range(max(200, COUNT // 100)):
            exchange = rng.choice(known)
            data = spoil(exchange.request if side == "site" else exchange.reply, pool, rng)
            if side == "site" and rng.random() < 0.5:
                data = restamp(data, exchange.question)
            tracemalloc.reset_peak()
            began = tracemalloc.get_traced_memory()[0]
            check(exchange, data)
            peak = tracemalloc.get_traced_memory()[1] - began
            assert peak < MEGABYTES * 2**20, f"{peak:,} bytes for {data.hex()[:4000]}"
    finally:
        tracemalloc.stop()


def test_every_kind_of_message_is_among_the_spoilt_ones() -> None:
    kinds = {unpack(exchange.request).kind for exchange in exchanges()}
    assert kinds == kinds_of_questions()


def test_no_method_has_questions_that_are_never_spoilt() -> None:
    ours = [method for method in METHODS.values() if method.__module__.startswith("fedgeom.")] + [RidgeUpdate]
    ours += [fedgeom.Describe, fedgeom.Cox, fedgeom.KaplanMeier]
    assert {type(method) for method in SPOILT} <= set(ours)
    every = {kind for method in ours for kind in method.site.understands()}
    untried = set() if importlib.util.find_spec("gudhi") else {kind for kind in every if kind.startswith("topo.")}
    assert kinds_of_questions() == every - untried


def test_the_same_question_gets_the_same_answer_and_changes_nothing_more() -> None:
    """A site that crashed after it answered, or a coordinator that did not hear it, may ask again."""
    for exchange in exchanges():
        reply, after = exchange.runner.answer(exchange.request, exchange.after)
        assert reply == exchange.reply
        assert after == exchange.after


OVER = (
    "xclp.begin", "xclp.relay", "xclp.cell-counts", "xclp.cell-sums", "train.masked", "shrunk.terms", "ridge.patches",
    "ridge.patch-counts", "ridge.clusters", "ridge.cells", "prepare.cells", "prepare.floors", "prepare.bins",
    "prepare.ranks", "prepare.moments", "prepare.products", "prepare.directions", "prepare.class-bins",
    "prepare.summaries", "prepare.cell-sizes", "prepare.cell-sums", "regression.columns", "regression.scores",
    "regression.squares", "regression.sites", "survival.bins", "survival.cells", "survival.columns", "survival.curves",
    "survival.curvature", "survival.risk-sets", "survival.strata",
)  # fmt: skip
"""Questions that a site may refuse once the run has gone on."""


def test_an_earlier_question_asked_late_gets_the_same_answer_and_harms_nobody() -> None:
    """Messages of a run that was broken off may reach a site after those of the resumed one.

    The letters of a comparison have megabytes; a site forgets them when it is over, and refuses. So does one that
    has trained another round since, clustered on, taken another of Newton's steps, or spread labels anew.
    """
    known = exchanges()
    last = {id(exchange.runner): exchange.after for exchange in known}
    for exchange in known:
        reply, after = exchange.runner.answer(exchange.request, last[id(exchange.runner)])
        kind, method = unpack(exchange.request).kind, exchange.runner.method.name
        over = kind in OVER or (method == "xclp-training" and kind.startswith(("xclp.", "semi.")))
        assert reply == exchange.reply or (over and unpack(reply).kind == Refusal.kind)
        assert after == last[id(exchange.runner)]


def asked(kind: str) -> Exchange:
    """Return the first exchange that began with this kind of question."""
    return next(exchange for exchange in exchanges() if unpack(exchange.request).kind == kind)


def put(exchange: Exchange, question: Any) -> Message:
    """Put another question, with its ticket made out properly, at the moment of this one; return the answer."""
    data = restamp(pack(RUN, exchange.runner.method.name, question), exchange.question)
    reply, _ = exchange.runner.answer(data, exchange.before)
    return read_answer(unpack(reply), exchange.question.answer)


@pytest.mark.parametrize("change", [{"epsilon": 1e-6}, {"curvature": 0.5}])
def test_a_site_keeps_to_the_terms_it_joined_on(change: dict[str, float]) -> None:
    """A coordinator that invites on coarse terms cannot ask in fine ones."""
    exchange = asked("hulls.encode")
    question: Any = read(exchange.request, exchange.question)
    refusal = put(
        exchange, msgspec.structs.replace(question, plan=msgspec.structs.replace(question.plan, **change))
    )
    assert isinstance(refusal, Refusal)
    assert f"the site joined on {next(iter(change))}=" in refusal.reason
    assert not isinstance(put(exchange, question), Refusal)


@pytest.mark.parametrize("shape", [(1, -1), (-1, 1), (-1, 2)])
def test_sums_from_before_have_one_axis_whatever_their_hash(shape: tuple[int, int]) -> None:
    """A hash of bytes says no shape; a column added to a row is a matrix."""
    exchange = asked("ridge-update.check")
    question: Any = read(exchange.request, exchange.question)
    before = question.before.numpy()
    refusal = put(exchange, msgspec.structs.replace(question, before=Array.of(before.reshape(shape))))
    assert isinstance(refusal, Refusal)
    assert "is not the one that the terms stand for" in refusal.reason
    assert not isinstance(put(exchange, question), Refusal)


@pytest.mark.parametrize("change", [{"h": 32}, {"h": 22}, {"classes": 4096}, {"classes": 4096, "h": 32}])
def test_a_plan_that_no_site_could_carry_out_is_refused_at_once(change: dict[str, int]) -> None:
    exchange = asked("hulls.encode")
    question: Any = read(exchange.request, exchange.question)
    plan = msgspec.structs.replace(question.plan, **change)
    with no_longer_than(SECONDS):
        answer = put(exchange, msgspec.structs.replace(question, plan=plan))
    assert isinstance(answer, Refusal)


def test_an_answer_larger_than_the_policy_allows_is_never_made() -> None:
    """With a fine grid and a large capacity a coordinator could ask for gigabytes."""
    method = fedgeom.Hulls(epsilon=1e-6, capacity=4 * 10**6, n_classes=2, radius=0.99)
    unforeseen = check_aligned(method, small_sites(), Policy(max_message_bytes=2**40))  # as if nobody had looked
    with no_longer_than(60), pytest.raises(TooFewSitesError, match="max_message_bytes = 67,108,864"):
        fedgeom.run(method, small_sites(), checked=unforeseen)


def spoiling(rng: random.Random, at: int) -> Any:
    """Return a way of delivering in which one answer of the run is spoilt."""
    count = 0

    def wrap(deliver: Any) -> Any:
        def delivered(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
            nonlocal count
            for name, reply in deliver(requests):
                count += 1
                yield name, spoil(reply, [reply], rng) if count == at and isinstance(reply, bytes) else reply

        return delivered

    return wrap


def other_numbers(words: Any, rng: np.random.Generator) -> Any:
    """Return numbers that no rows have, in the place of those that a site adds to a sum."""
    values = words.copy().view(np.int64)
    most = 2 ** int(rng.choice([3, 20, 28, 35, 45]))
    some = rng.random(values.shape) < rng.random()
    ways = (
        lambda: -values,
        lambda: rng.permuted(values),
        lambda: values * int(rng.choice([0, 3, 1000])),
        lambda: rng.integers(-most, most, values.shape),
        lambda: np.where(some, rng.integers(-most, most, values.shape), values),
    )
    return ways[rng.integers(len(ways))]().astype(np.int64).view(np.uint64)


@pytest.mark.parametrize("method", SPOILT, ids=[f"{at} {method.name}" for at, method in enumerate(SPOILT)])
def test_a_run_with_a_site_that_adds_what_no_rows_have_ends_in_a_model_or_an_error_of_ours(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks hide who added it, so nobody can be left out; but whoever runs it gets words, and no stack of NumPy's."""
    honest = SummingSite.contribute
    number = at = 0
    rng = np.random.default_rng(0)

    def contribute(self: Any, ask: Any, values: Any, **more: Any) -> Contribution:
        nonlocal number
        found = honest(self, ask, values, **more)
        number += 1
        if number != at or ask.ticket.ring.modulus != RING.modulus:
            return found
        return dataclasses.replace(found, vector=other_numbers(found.vector, rng), fresh=False)

    monkeypatch.setattr(SummingSite, "contribute", contribute)
    frail = isinstance(
        method, fedgeom.Ellipses | fedgeom.Hulls
    )  # they take roots and inverses of what they are told
    for trial in range(60 if frail else max(8, COUNT // 500)):
        number, at = 0, 1 + trial % (4 if frail else 12)
        engine = EmbeddedEngine(method, sites_for(method))
        sites = Coordinator(engine, run=RUN, method=method.name, roster=engine.roster)
        with no_longer_than(60), contextlib.suppress(FedgeomError):
            tensors, _ = method.conduct(sites).tensors()
            assert all(np.isfinite(values).all() for values in tensors.values())


@settings(max_examples=max(20, COUNT // 1000), deadline=None, database=None, derandomize=True)
@given(seed=st.integers(0, 2**63), at=st.integers(1, 40), method=st.sampled_from(SPOILT))
def test_a_run_with_one_spoilt_answer_ends_in_a_model_or_an_error_of_ours(
    seed: int, at: int, method: Method
) -> None:
    engine = EmbeddedEngine(method, sites_for(method))
    engine.deliver = spoiling(random.Random(seed), at)(engine.deliver)  # type: ignore[method-assign]
    sites = Coordinator(engine, run=RUN, method=method.name, roster=engine.roster)
    try:
        with no_longer_than(60):
            model = method.conduct(sites)
    except FedgeomError:
        return
    tensors, _ = model.tensors()
    assert all(np.isfinite(values).all() for values in tensors.values())

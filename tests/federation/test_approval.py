"""Approval: one hash for one job, and a runner that asks before it looks at anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Message, Refusal, Waiting, decode, unpack
from fedgeom.federation.policy import (
    REVOKED,
    ApproveAny,
    Invitation,
    JobTerms,
    NotApprovedError,
    RevokedError,
    hash_terms,
    job_terms,
    release_series,
)
from fedgeom.federation.runner import SiteRunner
from fedgeom.protocols.site import SecureMemory
from fedgeom.testing.rehearsal import Rehearsal, example_sites

JOB: dict[str, Any] = {
    "method": "m",
    "settings": {"a": 1},
    "seed": 0,
    "participants": ["x", "y"],
    "release": "0.1.2",
}


def digest(**changes: Any) -> bytes:
    return hash_terms(job_terms(**(JOB | changes)))


def test_the_hash_is_of_everything_that_shapes_what_leaves() -> None:
    others: list[dict[str, Any]] = [
        {"method": "n"}, {"seed": 1}, {"release": "0.2"}, {"release": "1.1"}, {"release": ""},
        {"participants": ["x"]}, {"participants": ["x", "z"]}, {"participants": ["x", "y", "z"]},
        {"participants": ["xy"]}, {"participants": []}, {"purpose": "x"},
        *({"settings": settings} for settings in (
            {}, {"b": 1}, {"a": 2}, {"a": 1.0}, {"a": "1"}, {"a": True}, {"a": None}, {"a": ("x", "y")},
            {"a": ("x\ny",)}, {"a": {"name": "x"}}, {"a": 1, "b": 1},
        )),
    ]  # fmt: skip
    assert len({digest(), *(digest(**one) for one in others)}) == len(others) + 1


def test_the_hash_does_not_depend_on_order_or_on_the_last_number_of_the_release() -> None:
    assert digest(settings={"a": 1, "b": (1, 2)}) == digest(settings={"b": [1, 2], "a": 1})
    assert digest(participants=("y", "x"), release="0.1") == digest()
    assert release_series("12.34.5.dev1") == "12.34"


def test_terms_survive_the_file_in_which_they_are_kept() -> None:
    job = job_terms("m", {"a": 1.0, "b": ("x",), "c": None, "d": {"name": "z", "e": 2}}, 3, ["b", "a"])
    assert hash_terms(msgspec.json.decode(msgspec.json.encode(job), type=JobTerms)) == hash_terms(job)


def test_an_invitation_must_say_its_terms() -> None:
    class Mute(Invitation, frozen=True, kw_only=True):
        kind = "test.mute"

    with pytest.raises(NotImplementedError, match="Mute does not say"):
        Mute().job("m")
    approves = ApproveAny()
    approves.admit(bytes(32), job_terms(**JOB))
    approves.check(bytes(32), "m", b"")


# --- the runner ---


@dataclass
class Steward:
    """A steward with a list of hashes, who may change her mind."""

    approved: set[bytes] = field(default_factory=set)
    revoked: bool = False
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    def admit(self, run: bytes, job: JobTerms) -> None:
        self.asked.append(("admit", hash_terms(job)))
        if hash_terms(job) not in self.approved:
            raise NotApprovedError

    def check(self, run: bytes, method: str, approved: bytes) -> None:
        self.asked.append(("check", approved))
        if self.revoked:
            raise RevokedError(REVOKED)
        if not approved:
            raise ProtocolError("asked before it was invited")


@pytest.fixture(scope="module")
def held() -> Rehearsal:
    return Rehearsal(fedgeom.Moments(), example_sites(), seed=4).conduct()


def runner_of(held: Rehearsal, steward: Steward, data: Callable[[], SiteData] | None = None) -> SiteRunner:
    own = held.engine.runners["site-1"]
    identity = own.identity.__class__(
        own.identity.name, own.identity.key, own.identity.roster, own.identity.policy, steward
    )
    return SiteRunner(own.site, own.method, identity, data or (lambda: held.sites[0]))


def terms_of(held: Rehearsal) -> bytes:
    names = [site.name for site in held.sites]
    return hash_terms(job_terms("moments", held.method.terms(), held.seed, names))


def mine(held: Rehearsal) -> list[Any]:
    return [one for one in held.exchanges if one.site == "site-1"]


def said(reply: bytes) -> Message:
    frame = unpack(reply)
    return decode(frame.body, {Waiting.kind: Waiting, Refusal.kind: Refusal}.get(frame.kind, Message))


def unread() -> SiteData:
    raise AssertionError("the data were looked at")


def test_the_work_begins_when_the_question_is_admitted_and_not_before(held: Rehearsal) -> None:
    begun: list[int] = []
    steward, hello = Steward(), mine(held)[0]
    for approved, expected in ((set(), 0), ({terms_of(held)}, 1)):
        steward.approved = approved
        runner_of(held, steward).answer(hello.request, None, begin=lambda: begun.append(1))
        assert len(begun) == expected
    later = mine(held)[1]
    broken = msgspec.msgpack.encode(msgspec.structs.replace(later.frame, body=b"\xc1"))
    for request, before in ((later.request, later.before), (later.request, None), (broken, later.before)):
        begun.clear()
        runner_of(held, steward).answer(request, before, begin=lambda: begun.append(1))
        assert begun == [1]


def test_an_unapproved_site_says_that_it_waits_and_looks_at_nothing(held: Rehearsal) -> None:
    runner = runner_of(held, Steward(), unread)
    for one in mine(held):
        reply, memory = runner.answer(one.request, None)
        kind = Waiting if one.frame.kind == "join.hello" else Refusal
        assert isinstance(said(reply), kind)
        assert memory == b""


def test_the_whole_run_is_answered_on_the_approved_terms_and_each_question_is_checked(held: Rehearsal) -> None:
    steward = Steward({terms_of(held)})
    runner, memory = runner_of(held, steward), b""
    own = mine(held)
    reply, memory = runner.answer(own[0].request, memory)
    assert unpack(reply).kind == "join.keys"
    remembered = msgspec.msgpack.decode(memory, type=SecureMemory)
    assert remembered.approved == remembered.joining.terms_hash == terms_of(held)
    assert runner.answer(own[0].request, memory) == (
        reply,
        memory,
    )  # the same run: not admitted again, but checked
    assert steward.asked == [("admit", terms_of(held)), ("check", terms_of(held))]
    for one in own[1:]:
        before = len(steward.asked)
        runner.answer(one.request, one.before)
        assert steward.asked[before:] == [("check", terms_of(held))]


def test_other_terms_in_the_same_run_are_refused_and_not_waited_for(held: Rehearsal) -> None:
    steward = Steward({terms_of(held)})
    runner, hello = runner_of(held, steward), mine(held)[0]
    _, memory = runner.answer(hello.request, None)
    other = msgspec.structs.replace(held.question(hello), seed=99)
    reply, kept = runner.answer(held.request(other, msgspec.msgpack.encode(other)), memory)
    answer = said(reply)
    assert isinstance(answer, Refusal)
    assert "announced on other terms before" in answer.reason
    assert kept == memory


def test_a_revoked_approval_ends_the_run_for_the_site_for_good(held: Rehearsal) -> None:
    steward = Steward({terms_of(held)})
    runner, own = runner_of(held, steward, unread), mine(held)
    for one in own[1:]:
        steward.revoked = True
        reply, memory = runner.answer(one.request, one.before)
        answer = said(reply)
        assert isinstance(answer, Refusal)
        assert answer.reason == REVOKED
        steward.revoked = False
        again, after = runner.answer(one.request, memory)
        assert isinstance(said(again), Refusal)
        assert after == memory


def test_a_joined_memory_of_another_run_helps_nobody(held: Rehearsal) -> None:
    runner, one = runner_of(held, Steward({terms_of(held)}), unread), mine(held)[-1]
    other = msgspec.structs.replace(one.frame, run=os.urandom(32))
    reply, _ = runner.answer(msgspec.msgpack.encode(other), one.before)
    assert isinstance(said(reply), Refusal)

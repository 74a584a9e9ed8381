"""The law that refusals tell nothing: sites whose data differ refuse alike, unless one leaves the run for good."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import DecodeError, FedgeomError
from fedgeom.federation.messages import Question, decode, unpack
from fedgeom.federation.method import Method
from fedgeom.testing.examples import twins
from fedgeom.testing.lies import Lie, lies_about, restamped
from fedgeom.testing.rehearsal import Exchange, Rehearsal, refused

PLACES = ("before joining", "in its time", "once more", "after the end")
"""When a question is put: what the site remembers then differs."""

Key = tuple[str, str, int]
"""An exchange of a run: the site, the kind of the question, and which of its kind it was."""


@dataclass(frozen=True)
class Trial:
    """One question that a coordinator could put, and when: an honest one, or a lie."""

    key: Key
    place: str
    lie: Lie | None

    def __str__(self) -> str:
        said = "" if self.lie is None else f", with {self.lie}"
        return f"{self.key[1]!r} {self.place}{said}"


def refusals_tell_nothing(method: Method, sites: Sequence[SiteData], seed: int, *, times: int) -> int:
    """Hold runs over sites that differ in their data, and lie to both alike: they answer or refuse with the same words.

    The twins differ in rows, in labels, in both, in how many rows they have, in the sizes of classes, and by one
    extreme row. Every question of an honest run is put to them before they joined, in its time, once more and after
    the end, and ``times`` lies about each. A twin that leaves the run for good may differ. Return how many outcomes
    were compared.
    """
    held = _hold(Rehearsal(method, sites, seed))
    rng, here = np.random.default_rng(seed), _by_key(held)
    trials = [trial for key in _of_each_kind(held, here) for trial in _trials(held, here[key], key, rng, times)]
    outcomes = [_outcome(held, here[trial.key], trial) for trial in trials]
    lied = [_body(held, here[trial.key], trial) != here[trial.key].frame.body for trial in trials]
    tried = 0
    for difference, data in twins(list(sites)).items():
        other = _hold(Rehearsal(method, data, seed))
        there, gone = _by_key(other), _somebody_left(other)
        for trial, outcome, lie in zip(trials, outcomes, lied, strict=True):
            twin = there.get(trial.key)
            if twin is None or (gone and refused(twin.reply)):  # the honest run went another way
                continue
            if (_body(other, twin, trial) != twin.frame.body) != lie:  # here it is what the honest run says
                continue
            found = _outcome(other, twin, trial)
            tried += 1
            assert found == outcome or "left" in (found, outcome), (
                f"whether {trial} is refused depends on the data: {outcome!r}, but of a site with other {difference}: "
                f"{found!r}"
            )
    return tried


def _hold(held: Rehearsal) -> Rehearsal:
    """Hold a run as far as it goes: with other data it may end early."""
    with contextlib.suppress(FedgeomError):
        held.hold()
    return held


def _by_key(held: Rehearsal) -> dict[Key, Exchange]:
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for one in held.exchanges:
        kind = one.frame.kind
        found[one.site, kind, seen[one.site, kind]] = one
        seen[one.site, kind] += 1
    return found


def _of_each_kind(held: Rehearsal, known: dict[Key, Exchange]) -> list[Key]:
    """Return the first answered question of each kind."""
    first: dict[str, Key] = {}
    for key, one in known.items():
        if not refused(one.reply):
            first.setdefault(key[1], key)
    return list(first.values())


def _somebody_left(held: Rehearsal) -> bool:
    return any(_left(memory) for memory in held.engine.memories.values())


def _left(memory: bytes) -> bool:
    return bool(memory) and bool(msgspec.msgpack.decode(memory).get("left"))


def _trials(held: Rehearsal, one: Exchange, key: Key, rng: np.random.Generator, times: int) -> Iterator[Trial]:
    for place in PLACES:
        yield Trial(key, place, None)
    known = lies_about(msgspec.msgpack.decode(one.frame.body), rng)
    for at in rng.permutation(len(known))[:times].tolist():
        yield Trial(key, str(rng.choice(PLACES[1:])), known[at])


def _question(held: Rehearsal, one: Exchange) -> type[Question]:
    return held.method.site.understands()[one.frame.kind]


def _body(held: Rehearsal, one: Exchange, trial: Trial) -> bytes:
    """Return the bytes of a trial's question."""
    if trial.lie is None:
        return bytes(one.frame.body)
    return restamped(trial.lie.told(msgspec.msgpack.decode(one.frame.body)), _question(held, one))


def _outcome(held: Rehearsal, one: Exchange, trial: Trial) -> str:
    """Return "answered", "left", "unreadable", or the reason of a refusal."""
    frame, question, body = one.frame, _question(held, one), _body(held, one, trial)
    memories = {
        "before joining": None,
        "in its time": one.before,
        "once more": one.after,
        "after the end": held.engine.memories[one.site],
    }
    try:
        reply, memory = held.runner(one.site).answer(held.request_of(frame.kind, body), memories[trial.place])
    except DecodeError:
        return "unreadable"
    if _left(memory):
        return "left"
    words = refused(reply)
    if not words:
        decode(unpack(reply).body, question.answer)
    return words or "answered"

"""The check that refusals reveal nothing: sites whose data differ refuse alike, unless one leaves for good."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fedgeom.errors import DecodeError, FedgeomError
from fedgeom.federation.messages import Question, decode, unpack
from fedgeom.testing.adversary import Lie, lies_about, restamped
from fedgeom.testing.rehearsal import CheckContext, RecordedExchange, Rehearsal, refused, twins

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


LIES = {"smoke": 0, "quick": 12, "full": 60}
"""How many lies are told about each question, by level."""


def refusals_reveal_nothing(context: CheckContext) -> int:
    """Sites whose data differ answer or refuse with the same words, unless one leaves the run for good.

    The twins differ in rows, in labels, in both, in how many rows they have, in the sizes of classes, and by one
    extreme row. Every question of an honest run is put to them before they joined, in its time, once more and after
    the end, and some lies about each.
    """
    usual = Replay(context.rehearsal_with_holdout)
    rng = np.random.default_rng(context.seed)
    trials = [trial for key in usual.one_of_each_kind() for trial in _trials(usual, key, rng, LIES[context.level])]
    bodies = [usual.body(trial) for trial in trials]
    outcomes = [usual.outcome(trial, body) for trial, body in zip(trials, bodies, strict=True)]
    lied = [usual.is_lie(trial, body) for trial, body in zip(trials, bodies, strict=True)]
    tried = 0
    for difference, data in twins(context.sites).items():
        other = Replay(_conducted(Rehearsal(context.method_with_holdout, data, context.seed)))
        for trial, outcome, lie in zip(trials, outcomes, lied, strict=True):
            if not other.went_the_same_way(trial.key):
                continue
            body = other.body(trial)
            if other.is_lie(trial, body) != lie:  # here it is what the honest run says
                continue
            found = other.outcome(trial, body)
            tried += 1
            assert found == outcome or "left" in (found, outcome), (
                f"whether {trial} is refused depends on the data: {outcome!r}, but of a site with other {difference}: "
                f"{found!r}"
            )
    return tried


def _conducted(held: Rehearsal) -> Rehearsal:
    """Hold a run as far as it goes: with other data it may end early."""
    with contextlib.suppress(FedgeomError):
        held.conduct()
    return held


def _left(memory: bytes) -> bool:
    return bool(memory) and bool(msgspec.msgpack.decode(memory).get("left"))


def _trials(held: Replay, key: Key, rng: np.random.Generator, times: int) -> Iterator[Trial]:
    for place in PLACES:
        yield Trial(key, place, None)
    known = lies_about(held.content(key), rng)
    for at in rng.permutation(len(known))[:times].tolist():
        yield Trial(key, str(rng.choice(PLACES[1:])), known[at])


class Replay:
    """A run whose questions are put to its sites again, as they were or with a lie."""

    def __init__(self, held: Rehearsal):
        self._held = held
        self._runners = {name: held.new_runner(name) for name in held.names}
        self._left = any(map(_left, held.engine.memories.values()))
        self._exchanges: dict[Key, RecordedExchange] = {}
        seen: Counter[tuple[str, str]] = Counter()
        for one in held.exchanges:
            kind = one.frame.kind
            self._exchanges[one.site, kind, seen[one.site, kind]] = one
            seen[one.site, kind] += 1
        # What comes of a question follows from the site's memory: nothing is asked twice, nor what the run has asked.
        self._outcomes = {
            (one.site, one.before, one.request): self._outcome(one.frame.kind, one.reply, one.after)
            for one in held.exchanges
        }

    def one_of_each_kind(self) -> list[Key]:
        """Return the first answered question of each kind."""
        first: dict[str, Key] = {}
        for key, one in self._exchanges.items():
            if not refused(one.reply):
                first.setdefault(key[1], key)
        return list(first.values())

    def went_the_same_way(self, key: Key) -> bool:
        """Say whether this run has an exchange, too: where a site left, the honest run may have gone another way."""
        one = self._exchanges.get(key)
        return one is not None and not (self._left and refused(one.reply))

    def content(self, key: Key) -> Any:
        """Return what a question says."""
        return msgspec.msgpack.decode(self._exchanges[key].frame.body)

    def body(self, trial: Trial) -> bytes:
        """Return the bytes of a trial's question."""
        if trial.lie is None:
            return bytes(self._exchanges[trial.key].frame.body)
        return restamped(trial.lie.told(self.content(trial.key)), self._question(trial.key[1]))

    def is_lie(self, trial: Trial, body: bytes) -> bool:
        """Say whether a question is not the one of the honest run."""
        return body != self._exchanges[trial.key].frame.body

    def outcome(self, trial: Trial, body: bytes) -> str:
        """Return "answered", "left", "unreadable", or the reason of a refusal."""
        one = self._exchanges[trial.key]
        memory = {
            "before joining": None,
            "in its time": one.before,
            "once more": one.after,
            "after the end": self._held.engine.memories[one.site],
        }[trial.place]
        asked = one.site, memory, self._held.request_of(one.frame.kind, body)
        if asked not in self._outcomes:
            self._outcomes[asked] = self._ask(one.frame.kind, *asked)
        return self._outcomes[asked]

    def _ask(self, kind: str, site: str, memory: bytes | None, request: bytes) -> str:
        try:
            reply, after = self._runners[site].answer(request, memory)
        except DecodeError:
            return "unreadable"
        return self._outcome(kind, reply, after)

    def _outcome(self, kind: str, reply: bytes, after: bytes) -> str:
        if _left(after):
            return "left"
        words = refused(reply)
        if not words:
            decode(unpack(reply).body, self._question(kind).answer)
        return words or "answered"

    def _question(self, kind: str) -> type[Question]:
        return self._held.method.site.understands()[kind]

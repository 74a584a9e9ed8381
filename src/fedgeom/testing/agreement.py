"""Checks of what a run yields: the plain run's result, the same on every engine, a ledger that leaves nothing out."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fedgeom.engines.run import ENGINES, run
from fedgeom.errors import DecodeError, FedgeomError
from fedgeom.federation.messages import Question, decode, encode, unpack
from fedgeom.federation.model import Model, from_bytes
from fedgeom.testing.adversary import Lie, lies_about, restamped
from fedgeom.testing.rehearsal import CheckContext, RecordedExchange, Rehearsal, need_predictions, refused, twins

ROWS_ALONE = 8
"""How many rows of a site are also given one by one."""


def terms_round_trip(context: CheckContext) -> int:
    """The terms of a run give the method's settings back, and unknown terms are refused."""
    method = context.method
    again = type(method).from_terms(method.terms())
    assert again.terms() == method.terms(), "the terms of a run do not give the method's settings back"
    try:
        type(method).from_terms(method.terms() | {"no such setting": 1})
    except ValueError:
        return 1
    raise AssertionError("a setting that does not exist is accepted")


def secure_equals_plain(context: CheckContext) -> int:
    """A run yields what `Method.plain` computes: the joint model, and what each site has in the end."""
    finished = context.run
    twin = context.method.plain(context.sites, context.seed)
    missing = finished.lost | finished.returned
    assert not missing, f"sites were lost in an undisturbed run: {missing}"
    arrays, facts = finished.model.tensors()
    wanted, wanted_facts = twin.model.tensors()
    odd = {name: (facts.get(name), wanted_facts.get(name)) for name in facts.keys() | wanted_facts.keys()}
    odd = {name: both for name, both in odd.items() if not _alike(*both, context.tolerance)}
    assert not odd, f"facts of the model that are not the plain run's: {odd}"
    _close(arrays, wanted, context.tolerance, "the joint model")
    for site, own in twin.local.items():
        assert site in finished.local, f"{site} has no result, but the plain run has one for it"
        shared = {key: value for key, value in own.items() if key in finished.local[site]}
        found = {key: finished.local[site][key] for key in shared}
        _close(found, shared, context.tolerance, f"the result of {site}")
    return 1


def _alike(found: Any, wanted: Any, tolerance: float) -> bool:
    """Return whether two facts are the same; a sum is rounded at each site, so that real numbers are to a tolerance."""
    if isinstance(found, float) and isinstance(wanted, float):
        return abs(found - wanted) <= tolerance * (1 + abs(wanted))
    return bool(found == wanted)


def _close(found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float, what: str) -> None:
    assert set(found) == set(wanted), f"{what} has {sorted(found)}, the plain run's {sorted(wanted)}"
    for name, value in wanted.items():
        one = np.asarray(found[name])
        other = np.asarray(value)
        if other.dtype.kind in "fiu":
            assert one.shape == other.shape, f"{what}: {name} has shape {one.shape}, the plain run's {other.shape}"
            gap = float(np.max(np.abs(one.astype(float) - other.astype(float)), initial=0.0))
            limit = tolerance * (1 + float(np.max(np.abs(other), initial=0.0)))
            assert gap <= limit, f"{what}: {name} differs from the plain run's by {gap:.3g}"
        else:
            assert one.tolist() == other.tolist(), f"{what}: {name} is {found[name]!r}, the plain run's {value!r}"


def same_seed_same_model(context: CheckContext) -> int:
    """The same seed gives the same bytes on every engine and every time, and a saved model is read back whole."""
    first = context.run.model.to_bytes()
    assert _written_again(context.run.model) == first, "a model that was written and read back is another one"
    odd = []
    for engine in ENGINES:
        model = run(context.method, context.sites, context.seed, engine=engine).model
        found = model.to_bytes()
        assert _written_again(model) == found, "a model that was written and read back is another one"
        if found != first:
            odd.append(engine)
    assert not odd, f"other bytes than in the first run, with the same seed, on: {', '.join(odd)}"
    return len(ENGINES)


def _written_again(model: Model) -> bytes:
    """Return the bytes of a model that was written and read back."""
    return type(model).from_file(*from_bytes(model.to_bytes())[1:]).to_bytes()


def ledger_is_complete(context: CheckContext) -> int:
    """The ledger has every answer that left a site, with its size and what it reveals."""
    held = context.rehearsal
    sent = [(one.step, one.site, len(one.reply), len(one.request)) for one in held.exchanges]
    written = [(e.step, e.site, e.bytes, e.received) for e in held.conversation.ledger]
    assert sorted(sent) == sorted(written), "the ledger does not hold just the messages that left the sites"
    silent = sorted({entry.kind for entry in held.conversation.ledger if not entry.reveals})
    assert not silent, f"the ledger does not say what these messages reveal: {', '.join(silent)}"
    return len(sent)


def site_files_match_model(context: CheckContext) -> int:
    """A site's own model file predicts what ``model.for_site(run.local[site])`` predicts."""
    need_predictions(context)
    from fedgeom.methods.catalogue import read_model  # it loads every method

    held = context.rehearsal
    results = held.engine.results(held.run, models=True)
    for name, result in results.items():
        rows = next(site.X for site in context.sites if site.name == name)
        if not result.model:
            assert not result.found, f"{name} has a result but no model file of its own"
            continue
        own = read_model(result.model).predict(rows)
        wanted = held.model.for_site(result.found).predict(rows)
        assert np.array_equal(own, wanted), f"the model file of {name} predicts otherwise than model.for_site"
    return len(results)


def evaluation_equals_plain_count(context: CheckContext) -> int:
    """An evaluation's secure sum is the plain count of rows that the sites' models predict rightly, on every engine."""
    need_predictions(context)
    finished = context.run_with_holdout
    assert finished.evaluation is not None, f"nothing was tested: {list(map(str, finished.warnings))}"
    method = context.method_with_holdout
    right = 0
    rows = 0
    for aside in map(method.normalise_labels, finished.test):
        own = finished.model.for_site(finished.local[aside.name])
        right += int((own.predict(aside.X).astype(str) == aside.y.astype(str)).sum())
        rows += len(aside)
    told = finished.evaluation["own"]
    assert told.rows == rows > 0, f"{rows} rows were kept aside, {told.rows} were tested"
    assert round(told.accuracy.value * rows) == right, (
        f"{right} of {rows} rows are called rightly, not {told.accuracy}"
    )
    others = [engine for engine in ENGINES if engine != "embedded"]
    found = {engine: run(method, context.sites, context.seed, engine=engine) for engine in others}
    odd = [engine for engine, one in found.items() if one.evaluation != finished.evaluation]
    assert not odd, f"other figures than on the embedded engine, with the same seed, on: {', '.join(odd)}"
    return rows


def rows_are_predicted_alone(context: CheckContext) -> int:
    """What a model predicts for a row does not depend on the other rows."""
    need_predictions(context)
    finished = context.run
    asked = 0
    for site in context.sites:
        rows = site.X[:: max(len(site) // ROWS_ALONE, 1)][:ROWS_ALONE]
        own: Model = finished.model.for_site(finished.local[site.name])
        for model in [own, *([finished.model] if finished.model.everywhere else [])]:
            together = model.predict(rows)
            alone = np.concatenate([model.predict(row[None]) for row in rows])
            assert together.tolist() == alone.tolist(), "a row is put into another class when it comes alone"
            if hasattr(model, "predict_proba"):
                ones = np.vstack([model.predict_proba(row[None]) for row in rows])
                gap = float(np.abs(model.predict_proba(rows) - ones).max())
                # How a processor adds up depends on the number of rows, and in single precision it shows earlier.
                assert gap < (1e-6 if model.single else 1e-9), (
                    f"the probabilities of a row differ by {gap:.3g} when it comes alone"
                )
            asked += 1
    return asked


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
        """Say whether a question is not the one of the honest run, as a site reads it: what it lacks may be usual."""
        honest = bytes(self._exchanges[trial.key].frame.body)
        kind = self._question(trial.key[1])
        try:
            return encode(decode(body, kind)) != encode(decode(honest, kind))
        except DecodeError:
            return body != honest

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

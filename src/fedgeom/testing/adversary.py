"""Checks against a coordinator that lies: spoilt messages, and the standard tricks."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import Array, Question, decode, encode
from fedgeom.federation.runner import SiteRunner
from fedgeom.protocols.join.messages import Hello, Meet
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
    elif isinstance(question, Meet):
        others = [name for name in sorted(question.cohort) if name != site]
        few = {name: question.cohort[name] for name in (site, others[0])}
        yield "announces another cohort", replace(question, cohort=few)
        swapped = question.cohort | {others[0]: replace(question.cohort[others[0]], kem=question.cohort[site].kem)}
        yield "puts another encapsulation key into a site's place", replace(question, cohort=swapped)
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


Change = Callable[[Any], Any]
Path = tuple[str | int, ...]


def _say(value: Any) -> Change:
    """Return the change to one value, whatever was said."""
    return lambda _: value


NUMBERS: dict[str, Change] = {f"{value!r} instead": _say(value) for value in (0, -1, 1, 3, 2**31 - 1, 2**62)}
REALS: dict[str, Change] = {
    f"{value!r} instead": _say(value) for value in (0.0, -1.0, 1e-9, 1e9, math.nan, math.inf)
}
TEXTS: dict[str, Change] = {"another name": lambda _: "zoe", "no name": lambda _: "", "a number": lambda _: "97"}
BYTES: dict[str, Change] = {
    "zeros": lambda value: bytes(len(value)),
    "nothing": lambda _: b"",
    "its end cut off": lambda value: value[:-1],
}
LISTS: dict[str, Change] = {
    "the first left out": lambda value: value[1:],
    "the last left out": lambda value: value[:-1],
    "the other way round": lambda value: value[::-1],
    "the first twice": lambda value: [*value[:1], *value],
    "nothing": lambda _: [],
}
TABLES: dict[str, Change] = {
    "the first left out": lambda value: {key: value[key] for key in sorted(value)[1:]},
    "a stranger added": lambda value: value | {"zoe": next(iter(value.values()), 1)},
    "nothing": lambda _: {},
    "two exchanged": lambda value: dict(zip(sorted(value), [value[k] for k in sorted(value)[::-1]], strict=True)),
}
ARRAYS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "zeros": np.zeros_like,
    "its first row left out": lambda array: array[1:],
    "its first row twice": lambda array: np.concatenate([array[:1], array]),
    "in one line": lambda array: array.ravel(),
    "no rows": lambda array: array[:0],
    "the largest numbers": lambda array: np.full_like(array, _largest(array.dtype)),
    "no numbers": lambda array: np.full(array.shape, np.nan),
    "negative": lambda array: -array,
}
_OTHER: dict[type, dict[str, Change]] = {int: NUMBERS, float: REALS, str: TEXTS, bytes: BYTES, list: LISTS}


@dataclass(frozen=True)
class Lie:
    """A change at one place of a question."""

    path: Path
    words: str
    change: Change

    def __str__(self) -> str:
        return f"{'/'.join(map(str, self.path))}: {self.words}"

    def told(self, raw: Any) -> Any:
        """Return the question's content with the change made; as it is where the place is not there."""
        try:
            return _with_change(raw, self.path, self.change) if self.path else raw
        except (LookupError, TypeError, ValueError):
            return raw


def _with_change(value: Any, path: Path, change: Change) -> Any:
    """Return a value with a change at a path; only what lies on the path is copied."""
    if not path:
        return change(value)
    copied = copy.copy(value)
    copied[path[0]] = _with_change(value[path[0]], path[1:], change)
    return copied


def lies_about(raw: Any, rng: np.random.Generator) -> list[Lie]:
    """Return the lies that can be told about a question's content, each at one place."""
    return [Lie(path, words, change) for path, value in _places(raw) for words, change in _changes(value, rng)]


def _places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if path:
        yield path, value
    if isinstance(value, dict) and not _is_array(value):
        for key in sorted(value)[:8]:
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list):
        for at in range(min(len(value), 2)):
            yield from _places(value[at], (*path, at))


def _changes(value: Any, rng: np.random.Generator) -> Iterator[tuple[str, Change]]:
    if isinstance(value, bool):
        yield "the opposite", lambda old: not old
    elif value is None:
        yield "a number", lambda _: 1.0
    elif _is_array(value):
        factor = 10.0 ** rng.uniform(-3, 3)
        changes = ARRAYS | {f"{factor:.3g} times as much": lambda array: _times(array, factor)}
        for words, change in changes.items():
            yield words, functools.partial(_changed, change=change)
    elif isinstance(value, dict):
        yield from TABLES.items()
    else:
        yield from _OTHER.get(type(value), {}).items()


def _is_array(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"dtype", "shape", "data"}


def _changed(raw: Any, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Any:
    array = change(msgspec.convert(raw, Array).numpy())
    return msgspec.to_builtins(Array.of(array), builtin_types=(bytes,))


def _times(array: np.ndarray[Any, Any], factor: float) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):  # whole numbers may become others: a lie all the same
        return np.asarray((array * factor).astype(array.dtype))


def _largest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.finfo(dtype).max / 2


def restamped(raw: Any, kind: type[Question]) -> bytes:
    """Return a question's bytes, with the ticket of a sum made out for what it now says; what cannot be read, as is."""
    body = msgspec.msgpack.encode(raw)
    try:
        question = decode(body, kind)
    except DecodeError:
        return body
    if not isinstance(question, SumQuestion):
        return body
    ticket = msgspec.structs.replace(question.ticket, question_hash=hash_question(question))
    return encode(msgspec.structs.replace(question, ticket=ticket))

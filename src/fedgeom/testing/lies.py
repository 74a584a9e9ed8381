"""Lies about a question: one place in it changed, in the same way whoever is asked."""

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
from fedgeom.protocols.secure_sum.messages import SumQuestion, hash_question

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

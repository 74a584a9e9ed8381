"""A function that remembers its last call: one question to a thousand sites of a process is looked at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def remembers_last(function: Callable[P, R]) -> Callable[P, R]:
    """Give back what the last call gave, where it had the very same arguments: the same objects, or equal bytes.

    To compare a thousand keys costs more than to see that they are the same object. For objects that nobody changes,
    as those of a question that came.
    """
    last: list[tuple[tuple[Any, ...], R]] = []

    @wraps(function)
    def remembering(*given: P.args, **named: P.kwargs) -> R:
        seen = (*given, *named.items())
        if not named and last and len(last[0][0]) == len(seen) and all(map(_same, seen, last[0][0])):
            return last[0][1]
        found = function(*given, **named)
        last[:] = [(seen, found)]
        return found

    return remembering


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and isinstance(one, bytes | int) and one == other)

"""A function that remembers its last call: one question to a thousand sites of a process is looked at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from operator import is_
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

P = ParamSpec("P")
R = TypeVar("R")


def remembers_last(function: Callable[P, R]) -> Callable[P, R]:
    """Give back what the last call gave, where it had the very same arguments.

    That are equal bytes or numbers, the same tuples and frozen structs, and dictionaries with the very same objects as
    before: to see that a thousand keys are the same objects takes a fraction of the time to look into them. What stands
    in them must be something that nobody changes, as what came in a question.
    """
    last: list[tuple[tuple[Any, ...], R]] = []

    @wraps(function)
    def remembering(*given: P.args, **named: P.kwargs) -> R:
        if not named and last and len(last[0][0]) == len(given) and all(map(_same, given, last[0][0])):
            return last[0][1]
        found = function(*given, **named)
        last[:] = [(tuple(map(_snapshot, given)), found)] if not named else []
        return found

    return remembering


def _snapshot(value: Any) -> Any:
    return (tuple(value), tuple(value.values())) if isinstance(value, dict) else value


def _same(given: Any, before: Any) -> bool:
    if isinstance(given, tuple) or (isinstance(given, Struct) and given.__struct_config__.frozen):
        return given is before
    if not isinstance(given, dict):
        return type(given) is type(before) and isinstance(given, bytes | int) and bool(given == before)
    if not isinstance(before, tuple) or len(before[0]) != len(given):
        return False
    return all(map(is_, given, before[0])) and all(map(is_, given.values(), before[1]))

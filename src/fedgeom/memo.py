"""The package's one cache: what is the same for many sites or questions of a process is worked out once.

========================  ====================================================================================
`memoize`                 keeps results of many calls, by the value of the arguments or by a key; bounded
`memoize_last`            keeps the result of the latest call: one question goes to a thousand sites of a process
`memoize_per_object`      keeps one result for each object that is alive, such as a site's table
`Store`                   results by key, for callers that also drop them
`clear`                   empties all of them, or those of some functions
========================  ====================================================================================

A value that belongs to one object alone is a `functools.cached_property` of it instead. All caches may be used by
several threads: two that come at once may both do the work, and both get a right result. A forked process begins with
a copy of what its parent kept. A call that raises keeps nothing. Results are shared, so callers do not change them.

A key or result that is secret stays in memory until it is pushed out or cleared: bound such caches tightly, and clear
them when a run is over (`fedgeom.crypto.keys.forget_agreements`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import lru_cache, partial, wraps
from operator import is_
from threading import Lock
from typing import Any, Generic, ParamSpec, TypeVar, overload
from weakref import ref

import numpy as np
from msgspec import Struct

P = ParamSpec("P")
R = TypeVar("R")

_LOCK = Lock()
"""Guards what `Store` keeps while something is put in or pushed out; no work is done meanwhile."""

_CLEAR: dict[Callable[..., Any], Callable[[], Any]] = {}
"""For each function that keeps results, what makes it forget them."""

_MISSING: Any = object()


def _renew_lock() -> None:
    """Give a forked process a lock of its own: another thread of its parent may have held the one it has."""
    global _LOCK
    _LOCK = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def clear(*functions: Callable[..., Any]) -> None:
    """Forget the results that these functions keep; without any given, those of all functions and stores."""
    for function in functions or tuple(_CLEAR):
        _CLEAR[function]()


class Store(Generic[R]):
    """Results by key, bounded in number or in bytes; what was put in first goes first.

    Parameters
    ----------
    max_entries : int, optional
        How many results are kept at most.
    max_bytes : int, optional
        How many bytes arrays (``nbytes``) have together at most; a single one is kept however large it is.
    """

    def __init__(self, max_entries: int | None = None, *, max_bytes: int | None = None):
        self.max_entries = max_entries
        self.max_bytes = max_bytes
        self._kept: dict[Hashable, R] = {}
        _CLEAR[self.find] = self.clear

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: Hashable, work: Callable[[], R]) -> R:
        """Return what is kept under a key, or the outcome of some work, which is then kept."""
        found: R = self._kept.get(key, _MISSING)
        if found is _MISSING:
            found = work()
            with _LOCK:
                self._kept[key] = found
                while len(self._kept) > 1 and self._is_full():
                    del self._kept[next(iter(self._kept))]
        return found

    def drop(self, key: Hashable) -> None:
        """Forget what is kept under a key, if anything is."""
        with _LOCK:
            self._kept.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        with _LOCK:
            self._kept.clear()

    def _is_full(self) -> bool:
        if self.max_entries is not None and len(self._kept) > self.max_entries:
            return True
        kept: Any = self._kept.values()
        return self.max_bytes is not None and sum(one.nbytes for one in kept) > self.max_bytes


def memoize(
    max_entries: int, *, key: Callable[..., Hashable] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep the results of so many calls.

    Parameters
    ----------
    max_entries : int
        How many results are kept. The one that was used least recently goes first; with a ``key``, the oldest.
    key : callable, optional
        Takes the arguments of a call and returns what its result follows from, such as a hash: for arguments that
        have no hash of their own or are long. By default the arguments themselves are compared.

    >>> @memoize(2, key=lambda names: len(names))
    ... def longest(names: list[str]) -> int:
    ...     return len(names)
    >>> longest(["a", "b"])
    2
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if key is None:
            kept = lru_cache(maxsize=max_entries)(function)
            _CLEAR[kept] = kept.cache_clear
            return kept  # type: ignore[return-value]  # its arguments are those of the function

        store = Store[R](max_entries)

        @wraps(function)
        def remembering(*given: P.args, **named: P.kwargs) -> R:
            return store.find(key(*given, **named), partial(function, *given, **named))

        _CLEAR[remembering] = _CLEAR.pop(store.find)
        return remembering

    return decorate


@overload
def memoize_last(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def memoize_last(*, key: Callable[..., tuple[object, ...]]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def memoize_last(function: Any = None, /, *, key: Any = None) -> Any:
    """Keep the result of the latest call, for the next one with the very same arguments.

    The same are: equal bytes, texts and whole numbers; the very same tuples, classes and frozen structs (to look into
    a thousand entries takes longer); dictionaries with the very same objects in them; equal arrays that nobody can
    write to. Calls with anything else, or with named arguments, are not kept. What is kept goes before the next
    result is made: both may be large.

    Parameters
    ----------
    key : callable, optional
        Takes the arguments of a call and returns the objects that its result follows from, which nobody changes: two
        calls are the same if all of these are the very same objects.
    """
    if function is None:
        return partial(_memoize_last, key=key, snapshot=_itself, same=is_)
    return _memoize_last(function, key=_arguments, snapshot=_snapshot, same=_same)


def _memoize_last(
    function: Callable[..., R],
    *,
    key: Callable[..., tuple[Any, ...] | None],
    snapshot: Callable[[Any], Any],
    same: Callable[[Any, Any], bool],
) -> Callable[..., R]:
    last: list[tuple[tuple[Any, ...], R] | None] = [None]

    @wraps(function)
    def remembering(*given: Any, **named: Any) -> R:
        now = key(*given, **named)
        known = last[0]
        if known is not None and now is not None and len(known[0]) == len(now) and all(map(same, now, known[0])):
            return known[1]
        del known
        last[0] = None
        found = function(*given, **named)
        kept = None if now is None else tuple(map(snapshot, now))
        if kept is not None and not any(one is _MISSING for one in kept):
            last[0] = kept, found
        return found

    _CLEAR[remembering] = partial(last.__setitem__, 0, None)
    return remembering


def _arguments(*given: Any, **named: Any) -> tuple[Any, ...] | None:
    return None if named else given


def _itself(value: Any) -> Any:
    return value


def _snapshot(value: Any) -> Any:
    """Return what a later argument is compared with; `_MISSING` for one that somebody may change."""
    if isinstance(value, dict):
        return tuple(value), tuple(value.values())
    if isinstance(value, np.ndarray):
        return _MISSING if value.flags.writeable else value
    fixed = value is None or isinstance(value, bytes | int | str | tuple | type)
    return value if fixed or (isinstance(value, Struct) and value.__struct_config__.frozen) else _MISSING


def _same(given: Any, before: Any) -> bool:
    if isinstance(given, dict):
        if not isinstance(before, tuple) or len(before[0]) != len(given):
            return False
        return all(map(is_, given, before[0])) and all(map(is_, given.values(), before[1]))
    if type(given) is not type(before):
        return False
    if isinstance(given, bytes | int | str):
        return bool(given == before)
    if isinstance(given, np.ndarray):
        return given.dtype == before.dtype and np.array_equal(given, before)
    return given is before


def memoize_per_object(key: Callable[..., object]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep one result for each first argument, as long as that object is alive: the latest.

    A site is built anew for each question; its table is not, and what was made of it need not be. The object is known
    by its identity, the result must not refer to it, and nothing is kept for None.

    Parameters
    ----------
    key : callable
        Takes the arguments of a call and returns what its result follows from beside the object itself.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept: dict[int, tuple[ref[Any], object, R]] = {}

        @wraps(function)
        def remembering(*given: P.args, **named: P.kwargs) -> R:
            owner: Any = given[0]
            number = id(owner)
            now = key(*given, **named)
            known = kept.get(number)
            if known is not None and known[0]() is owner and known[1] == now:
                return known[2]
            del known
            kept.pop(number, None)
            found = function(*given, **named)
            if owner is not None:
                kept[number] = ref(owner, lambda _: kept.pop(number, None)), now, found
            return found

        _CLEAR[remembering] = kept.clear
        return remembering

    return decorate

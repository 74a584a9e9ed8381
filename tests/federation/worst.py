"""The worst that a small question may say: every number as large, or as fine, as its type and the terms let it be."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
import tracemalloc
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from fedgeom.errors import DecodeError, InputError
from fedgeom.federation.messages import Refusal, decode, pack_body, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy, hash_terms, job_terms
from fedgeom.federation.runner import SiteRunner
from fedgeom.federation.settings import Between
from tests.federation.fuzzing import Exchange, restamp

LARGE, FINE = (2**31, 10_000_000, 65_528, 4096, 30), (1e-12, 1e-3, 1e300)
LONG_WORK = ("steps", "epochs", "tuning_steps")
"""Settings that cost time and no memory: a steward approves them, or not."""


@dataclass(frozen=True)
class Cost:
    """What a site spent on a question, and what it said."""

    megabytes: float
    seconds: float
    said: str
    """The answer's kind, or the reason of a refusal."""
    what: str
    """What was asked, for people."""


def strict(runner: SiteRunner, policy: Policy) -> SiteRunner:
    """Return the same site with another policy."""
    identity = dataclasses.replace(runner.identity, policy=policy)
    return SiteRunner(runner.site, runner.method, identity, runner._data)


def spend(runner: SiteRunner, request: bytes, memory: bytes | None, what: str = "") -> Cost:
    """Put a question to a site and see what it costs."""
    began = time.process_time()
    tracemalloc.start()
    try:
        reply, _ = runner.answer(request, memory)
        frame = unpack(reply)
        said = decode(frame.body, Refusal).reason if frame.kind == Refusal.kind else frame.kind
    except DecodeError as error:  # a question that cannot be read at all
        said = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return Cost(peak / 2**20, time.process_time() - began, said, what)


def extremes(method: Method) -> Iterator[tuple[str, Any]]:
    """Yield each setting of a method with each end of its bounds."""
    hints = typing.get_type_hints(type(method), include_extras=True)
    for field in dataclasses.fields(type(method)):  # type: ignore[arg-type]
        for bounds in _bounds(hints[field.name]):
            for end in {bounds.high, bounds.low} - {math.inf, -math.inf}:
                if field.name not in LONG_WORK:
                    yield field.name, int(end) if end == int(end) else end
        if any(bounds.high == math.inf for bounds in _bounds(hints[field.name])):
            yield field.name, 10**12
            yield field.name, 1e-12


def _bounds(kind: Any) -> list[Between]:
    own = [one for one in getattr(kind, "__metadata__", ()) if isinstance(one, Between)]
    return own + [found for inner in typing.get_args(kind) for found in _bounds(inner)]


def joined_on(exchange: Exchange, method: Method, terms: dict[str, Any]) -> bytes | None:
    """Return what the site would remember, had it joined on other terms; nothing if those cannot be."""
    try:
        type(method).from_terms(terms)
    except (InputError, TypeError, ValueError):
        return None
    memory = msgspec.msgpack.decode(exchange.before or b"", type=exchange.runner.site.memory_type)
    joining = memory.joining
    job = job_terms(method.name, terms, joining.seed, joining.participants)
    joining.terms, joining.terms_hash = terms, hash_terms(job)
    return msgspec.msgpack.encode(memory)


def changes(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield places in decoded content, with something worse to stand there."""
    if isinstance(tree, dict | list):
        inside = tree.items() if isinstance(tree, dict) else list(enumerate(tree))[:3]
        for key, value in inside:
            if key not in ("question_hash", "data", "letters", "signature", "signatures"):
                yield from changes(value, (*path, key))
    elif tree is None or (isinstance(tree, int | float) and not isinstance(tree, bool)):
        for worse in (*LARGE, *FINE) if tree is None else LARGE if isinstance(tree, int) else FINE:
            yield path, worse


def changed(exchange: Exchange, path: tuple[Any, ...], value: Any) -> bytes:
    """Return a question with one place changed, and its ticket made out anew."""
    frame = unpack(exchange.request)
    tree = copy.deepcopy(msgspec.msgpack.decode(frame.body))
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    if path:
        inner[path[-1]] = value
    body = msgspec.msgpack.encode(tree)
    return restamp(pack_body(frame.run, frame.method, frame.kind, body), exchange.question)

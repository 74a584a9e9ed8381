"""Small things that Flower's application looks up for every request, without a thread for each.

FastAPI lets a thread do whatever might take long, and cannot know what does not: to get at a request that was read
before, or at the state, it asks a thread and waits for it, 0.15 ms each, three or four times a request. These functions
only return what stands somewhere already, or compare two version numbers. What asks who somebody is, and what answers
him, has its thread as ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

QUICK = frozenset(
    {
        "flwr.supercore.protobuf.translation.get_protobuf_request",
        "flwr.supercore.dependencies.version.VersionDependency",
        "flwr.supercore.dependencies.runtime.get_runtime_state",
        "flwr.supercore.dependencies.runtime.get_runtime_handlers",
        "flwr.superlink.dependencies.linkstate.get_linkstate",
    }
)
"""Functions of Flower's, and classes whose objects are called like functions, by their full names."""

InThread = Callable[..., Awaitable[Any]]


def at_once_if_quick(in_thread: InThread) -> InThread:
    """Return a function that calls what is quick at once, and leaves everything else to a thread."""

    async def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if full_name(function) in QUICK:
            return function(*arguments, **options)
        return await in_thread(function, *arguments, **options)

    return call


def full_name(function: Any) -> str:
    """Return a function's name with its module's; of an object that is called like one, its class's."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"

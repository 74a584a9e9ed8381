"""Reading tables without stopping at a fault: it is told, and what can be read is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fedgeom.data.findings import Collector, Finding, fault
from fedgeom.data.tables import TextColumnsError

T = TypeVar("T")


def attempt(collector: Collector, make: Callable[[], T]) -> T | None:
    """Return what is made, or None after a fault, whatever it is: a damaged file can make a reader stumble anywhere."""
    try:
        with collector.take():
            return make()
    except MemoryError as error:
        collector.found.append(_unread(collector.site, f"the table does not fit into memory ({error})"))
    except Exception as error:
        collector.found.append(_unread(collector.site, f"it cannot be read: {type(error).__name__}: {error}"))
    return None


def _unread(site: str, what: str) -> Finding:
    return fault(what, "look at the file, or make it smaller: fewer columns or rows", site=site, topic="file")


def read_numbers(collector: Collector, read: Callable[[list[str] | None], T]) -> tuple[T | None, tuple[str, ...]]:
    """Read a table, and where columns hold text, which is told, the others; return it and the columns left out.

    ``read`` takes the columns to read; None: those that were asked for.
    """
    texts: list[TextColumnsError] = []

    def first() -> T:
        try:
            return read(None)
        except TextColumnsError as error:
            texts.append(error)
            raise

    found = attempt(collector, first)
    if not texts:
        return found, ()
    others = list(texts[0].numbers)
    return (attempt(collector, lambda: read(others)) if others else None), texts[0].words

"""Methods that exist for one test only."""

from __future__ import annotations

from typing import TypeVar

from fedgeom.federation.method import METHODS, Method

M = TypeVar("M", bound=Method)


def unlisted(method: type[M]) -> type[M]:
    """Take a test's own method off the list, or tests that go through all methods would meet it."""
    METHODS._known.pop(method.name)
    return method

"""Steps and a method in one line."""

from __future__ import annotations

from dataclasses import replace

from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.steps import Step


def Pipeline(*parts: Step | Method) -> Method:  # noqa: N802  # as everybody calls it
    """Return a method that prepares raw rows first: ``parts`` are steps, and the method at the end.

    ``Pipeline(LogCounts(), SelectVariable(2000), Scale(), PCA(50), Ridge())`` is the same as ``Ridge(prepare=[…])``:
    preparation is a setting of every method, part of its terms and of its model, which takes raw rows.
    """
    *steps, method = parts or (None,)
    if not isinstance(method, Method):
        raise InputError(f"the last part of a Pipeline is {method!r}; wanted a method, such as fedgeom.Ridge()")
    known = [step for step in steps if isinstance(step, Step)]
    strange = [step for step in steps if not isinstance(step, Step)]
    if strange:
        raise InputError(
            f"{strange[0]!r} is no step; wanted steps of fedgeom.preparation, and a method at the end"
        )
    return replace(method, prepare=(*known, *method.preparing))

"""Tables for notebooks: pandas frames where pandas is there, plain records otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def as_frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Any:
    """Return a pandas DataFrame, or without pandas a list of dictionaries."""
    lines = [list(row) for row in rows]
    try:
        import pandas  # optional: only people with notebooks need it
    except ImportError:
        return [dict(zip(columns, line, strict=True)) for line in lines]
    return pandas.DataFrame(lines, columns=list(columns))

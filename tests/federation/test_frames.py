"""Tables for notebooks, with pandas and without."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from fedgeom.federation.ledger import as_frame


def test_with_pandas_a_frame_and_its_order() -> None:
    pandas = pytest.importorskip("pandas")
    found = as_frame(["b", "a"], [(1, "x"), [2, "y"]])
    assert isinstance(found, pandas.DataFrame)
    assert found.columns.tolist() == ["b", "a"]
    assert found.to_numpy().tolist() == [[1, "x"], [2, "y"]]
    assert as_frame(["a"], []).columns.tolist() == ["a"]


def test_without_pandas_records(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pandas(monkeypatch)
    assert as_frame(["b", "a"], iter([(1, "x"), (2, "y")])) == [{"b": 1, "a": "x"}, {"b": 2, "a": "y"}]
    assert as_frame(["a"], []) == []
    with pytest.raises(ValueError, match="zip"):
        as_frame(["a"], [(1, 2)])


def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pandas be missing."""
    real = builtins.__import__

    def absent(name: str, *rest: Any, **options: Any) -> Any:
        if name.split(".")[0] == "pandas":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", absent)

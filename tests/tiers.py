"""The two tiers of tests: `make test` for everybody, `make test-all` for everything.

A test marked ``full`` belongs to the second tier only. So does one marked ``data("file.npz")``, which needs a file that
does not come with the package, and is skipped where that is absent. Tests of hypothesis, and those marked ``deeper``,
run in both tiers, with more cases in the second. The Makefile sets ``FEDGEOM_TESTS=full`` for the second tier.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from fedgeom.data.datasets import SETS, data_folder

FULL = os.environ.get("FEDGEOM_TESTS") == "full"
"""Whether this is the second tier."""
EXAMPLES = 20
"""How many cases hypothesis draws for a test of the first tier, at most."""


def examples(count: int, *, suppress: tuple[HealthCheck, ...] = (), **options: Any) -> settings:
    """Return hypothesis' settings for a test that draws ``count`` cases in the second tier, and few in the first.

    Slow cases are no failures: the machine may be busy. The cases are the same in every run: a test that fails by
    chance tells the next person nothing.
    """
    return settings(
        max_examples=count if FULL else min(count, EXAMPLES),
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, *suppress],
        **options,
    )


def data_file(name: str) -> Path | None:
    """Return a file of the data folder, or None where it is absent."""
    folder = data_folder() or Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder / name if (folder / name).is_file() else None


def set_cases(names: Iterable[str]) -> list[Any]:
    """Return built-in sets' names as cases, each of which needs the set's file if it has one."""
    files = {name: SETS[name].file for name in names}
    return [pytest.param(name, marks=[pytest.mark.data(file)] if file else []) for name, file in files.items()]


def tiered(cases: Iterable[str], *first: str) -> list[Any]:
    """Return names as cases of which only those given are in the first tier."""
    names = list(cases)
    assert set(first) <= set(names), f"there is no case {', '.join(set(first) - set(names))}"
    return [pytest.param(name, marks=[] if name in first else [pytest.mark.full]) for name in names]

"""docs/training.md shows what is there: the example, the rows, the settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import fedgeom
from fedgeom.methods.iterative import Row
from tests.methods.iterative.making import ROWS, row_class

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def test_the_example_is_the_one_that_runs():
    example = (ROOT / "examples" / "own_algorithm.py").read_text(encoding="utf-8")
    assert f"```python\n{example}```" in PAGE
    assert len(example.splitlines()) < 40


def test_every_row_is_in_the_table_and_in_the_package():
    for name, cls in ROWS.items():
        assert f"`{cls}`" in PAGE
        assert getattr(fedgeom, cls) is row_class(name)
        assert cls in fedgeom.__all__


def test_every_shared_setting_is_explained():
    for field in dataclasses.fields(Row):
        if field.name not in ("classes", "least_points"):
            assert f"`{field.name}`" in PAGE, field.name

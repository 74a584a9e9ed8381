"""The twins stay strangers to fedgeom: equality with them would prove nothing if they shared a function."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TWINS = sorted((ROOT / "tests").rglob("twin.py"))
KNOWN = {"numpy", "scipy", "sklearn", "networkx", "gudhi", *sys.stdlib_module_names}
METHODS = {
    "ellipses",
    "hulls",
    "hyperfed",
    "iterative",
    "moments",
    "poincare_map",
    "ptopofl",
    "regression",
    "ridge",
    "shrunk",
    "survival",
    "xclp",
    "xclp_training",
}
"""All methods; updates of a ridge have the ridge's."""


DESCRIPTIONS = {"describe"}
"""What only counts and adds up is compared with pandas on pooled rows, in its own tests."""


def imported(path: Path) -> set[str]:
    """Name the modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {f"{module}.{alias.name}" if alias.name == "twin" else module for alias in node.names}
    return found


def test_every_method_and_preparation_have_a_twin() -> None:
    assert {path.parent.name for path in TWINS} == METHODS | {"preparation"}
    there = {path.name for path in (ROOT / "src/fedgeom/methods").iterdir() if (path / "method.py").exists()}
    assert there - DESCRIPTIONS <= METHODS


@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.parent.name)
def test_a_twin_imports_mathematics_and_other_twins_only(path: Path) -> None:
    others = {".".join(other.relative_to(ROOT).with_suffix("").parts) for other in TWINS}
    strange = {name for name in imported(path) if name.split(".")[0] not in KNOWN} - others
    assert not strange

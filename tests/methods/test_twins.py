"""The twins stay strangers to fedgeom: equality with them would prove nothing if they shared a function."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TWINS = sorted(HERE.rglob("twin.py"))
KNOWN = {"numpy", "scipy", "sklearn", "networkx", "gudhi", *sys.stdlib_module_names}


def imported(path: Path) -> set[str]:
    """Name the modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def test_every_method_with_a_paper_of_its_own_has_a_twin() -> None:
    assert {path.parent.name for path in TWINS} >= {"hulls", "iterative", "ptopofl", "xclp"}


@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.parent.name)
def test_a_twin_imports_mathematics_and_other_twins_only(path: Path) -> None:
    others = {f"tests.methods.{other.parent.name}.twin" for other in TWINS}
    strange = {name for name in imported(path) if name.split(".")[0] not in KNOWN} - others
    assert not strange

"""Rules of the code: one meaning per class name, late imports that say why, no paths of one machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "fedgeom"


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield every module of the package with its syntax tree."""
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions of a module, methods included."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_class_name_is_used_twice() -> None:
    homes: dict[str, list[str]] = {}
    for name, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert twice == {}


def test_imports_inside_functions_say_why() -> None:
    silent = []
    for name, tree in modules():
        if name.startswith("cli/"):  # all commands import what they use when they are called: `--help` is quick
            continue
        lines = (SOURCE / name).read_text(encoding="utf-8").splitlines()
        for one in functions(tree):
            for node in ast.walk(one):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    here, before = lines[node.lineno - 1], lines[node.lineno - 2].strip()
                    if "#" not in here and not before.startswith(("#", "from ", "import ")):
                        silent.append(f"{name}:{node.lineno}")
    assert not silent


def test_every_file_of_the_project_speaks_of_the_project_only() -> None:
    private = re.compile(r"(?<![\w./}])/(?:home|root|work)/")
    for folder in ("src", "docs", "papers", "examples", "benchmarks"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".md", ".json", ".toml"):
                text = file.read_text(encoding="utf-8")
                assert not private.search(text), file

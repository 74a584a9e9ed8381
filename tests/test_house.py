"""The house keeps its own rules: sizes, depth, tests beside modules, imports that say why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "fedgeom"
ELSEWHERE = {
    "extend.py": "only names other modules",
    "version.py": "one constant",
    "arrays.py": "types alone",
    "deploy/flower_app/fedgeom_app.py": "two lines that Flower loads; the deployment tests run it",
    "deploy/toml_files.py": "tests/deploy/test_site_folder.py and test_coordinator_folder.py read files through it",
}
"""Modules without a test module of their name, and why."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield every module of the package with its syntax tree."""
    for file in sorted(SOURCE.rglob("*.py")):
        yield file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions of a module, methods included."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_module_is_longer_than_300_lines_and_no_function_than_60() -> None:
    long = [name for name, _ in modules() if len((SOURCE / name).read_text(encoding="utf-8").splitlines()) > 300]
    assert not long
    wide = [
        f"{name}: {one.name}"
        for name, tree in modules()
        for one in functions(tree)
        if (one.end_lineno or 0) - one.lineno + 1 > 60
    ]
    assert not wide


def test_no_class_has_more_than_three_of_ours_above_it() -> None:
    bases: dict[str, list[str]] = {}
    for _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
                bases[node.name] = [base.id for base in names if isinstance(base, ast.Name)]

    def depth(name: str, seen: tuple[str, ...] = ()) -> int:
        above = [base for base in bases.get(name, []) if base in bases and base not in seen]
        return max((1 + depth(base, (*seen, name)) for base in above), default=0)

    deep = {name: depth(name) for name in bases if depth(name) > 3}
    assert not deep


def test_each_module_with_behaviour_has_a_test_module_of_its_name() -> None:
    missing = []
    for name, tree in modules():
        path = Path(name)
        behaves = any(True for _ in functions(tree))
        if not behaves or name in ELSEWHERE:
            continue
        if not (ROOT / "tests" / path.parent / f"test_{path.stem.strip('_')}.py").is_file():
            missing.append(name)
    assert missing == []


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

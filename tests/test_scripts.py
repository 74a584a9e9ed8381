"""What benchmarks, papers, examples and the reference script import is there, also where they import it late."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("benchmarks", "docs", "examples", "papers")
    for path in ROOT.glob(f"{folder}/**/*.py")
)


def imported(script):
    """Yield the modules and names of fedgeom that a script imports anywhere, and what it takes from ``fedgeom.``"""
    for node in ast.walk(ast.parse((ROOT / script).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fedgeom":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "fedgeom")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fedgeom":
            yield "fedgeom", node.attr


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_name_is_there(script):
    pairs = sorted(set(imported(script)), key=str)
    if any(module.startswith(("fedgeom.deploy", "fedgeom.engines.flower")) for module, _ in pairs):
        pytest.skip("it drives deployments; tests/deploy has what they consist of")
    for module, name in pairs:
        home = importlib.import_module(module)
        if name is not None and not hasattr(home, name):
            assert importlib.util.find_spec(f"{module}.{name}"), f"{script}: {module} has no {name}"


def test_a_benchmark_runs_and_ends_with_its_figures(tmp_path):
    finished = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "topology.py"),
            *("--quick", "--json", "--only", "fedavg_round_over_learner"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1])["fedavg_round_over_learner"] > 0
    assert not list(tmp_path.iterdir())


def test_the_reference_has_every_public_name():
    import fedgeom

    page = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["reference"]()
    for name in dir(fedgeom):
        if not name.startswith("_"):
            assert f"### `{name}(" in page
    for name in ("Cohort", "SumQuestion", "register_reader", "TrimmedMean"):
        assert f"### `{name}(" in page

"""What benchmarks, papers, examples and the reference script import is there, also where they import it late."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HANG_SECONDS

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


def figures(benchmark, part, folder):
    """Run one part of a benchmark in an empty folder, and return what its last line has."""
    finished = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / benchmark), "--quick", "--json", "--only", part],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert not list(folder.iterdir())
    return json.loads(finished.stdout.splitlines()[-1])[part]


def test_a_benchmark_runs_and_ends_with_its_figures(tmp_path):
    assert figures("topology.py", "fedavg_round_over_learner", tmp_path) > 0


@pytest.mark.full
def test_reading_is_measured_beside_the_library_that_everybody_reads_with(tmp_path):
    pytest.importorskip("anndata", reason="needs the bio extra")
    found = figures("reading.py", "h5ad", tmp_path)
    assert found["memory"] < 1.5  # time is not asserted: a test may share its core
    assert found["time"] > 0


def test_the_summary_of_benchmarks_is_that_of_the_committed_results():
    bench = runpy.run_path(str(ROOT / "benchmarks" / "bench.py"))
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    shown = page.split(bench["BEGIN"])[1].split(bench["END"])[0].strip()
    assert shown == bench["summary"]().strip()
    assert page == bench["filled"](page)  # also the table of what others take
    assert bench["beside"]() in page
    assert "**no**" in bench["table"]([bench["Figure"]("a ratio above its goal", 1.21, 1.2)])
    assert "| yes |" in bench["table"]([bench["Figure"]("a ratio at its goal", 1.2, 1.2)])


def test_the_reference_has_every_public_name():
    import fedgeom

    maker = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    for file in (ROOT / "docs").glob("*.md"):
        text = file.read_text(encoding="utf-8")
        assert maker["filled"](text) == text, (
            f"python docs/make_reference.py makes the settings of {file.name} anew"
        )
    pages = maker["reference"]()
    assert [f"{module}.md" for module in maker["MODULES"]] == [name for name in pages if name != "index.md"]
    for name in dir(fedgeom):
        if name in fedgeom._MODULES:
            assert f"fedgeom.{name}.md" in pages
        elif not name.startswith("_"):
            assert f"## `{name}`\n" in pages["fedgeom.md"]
            value = getattr(fedgeom, name)
            for one in inspect.signature(value).parameters if inspect.isfunction(value) else ():
                assert re.search(rf"\b{one}\b", inspect.getdoc(value)), f"{name} does not say what {one} is"
    page = "".join(pages.values())
    for name in ("Cohort", "SumQuestion", "register_reader", "TrimmedMean", "convex_hull"):
        assert f"## `{name}`\n" in page
    assert "-----\n" not in page.replace("|---|", "")  # a docstring's underlined word would be a heading
    assert max(len(line) for line in page.splitlines() if line.startswith("#")) < 80


def test_the_reference_lists_parameters_as_docstrings_do():
    maker = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    said = """Fit.

    Parameters
    ----------
    rows : array of shape (n, d)
        The points,
        one a row.
    C: the weight

    Returns
    -------
    The model.
    """
    assert maker["as_markdown"](inspect.cleandoc(said)) == (
        "Fit.\n\n**Parameters**\n\n- `rows`: array of shape (n, d). The points, one a row.\n- `C`: the weight\n\n"
        "**Returns**\n\n- The model."
    )


def test_the_tables_of_disclosure_are_those_of_the_results():
    from benchmarks import floors, row_leakage
    from benchmarks.common import read

    page = (ROOT / "docs/disclosure.md").read_text(encoding="utf-8")
    assert f"<!-- floors: begin -->\n{floors.page(read('floors')).strip()}\n<!-- floors: end -->" in page
    assert set(read("floors")) == set(floors.PARTS)
    figures = json.loads(row_leakage.RESULTS.read_text(encoding="utf-8"))
    rows = {
        "Hulls": "hull",
        "Ellipses": "gaussian",
        "Moments": "moments",
        "Ridge": "ridge",
        "preparation": "scaled",
    }
    for name, way in rows.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| [{name}](")]
        shown = [f"{100 * figures[way][size]['read']:.0f} %" for size in ("20", "100")]
        assert [cell.strip() for cell in row.split("|")[3:5]] == shown, name

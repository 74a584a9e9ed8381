"""Committed pages say what the figures beside them say; scripts have the same options; numbers by hand."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from papers.common import draw
from papers.ptopofl import curves, pictures
from papers.xclp import cost, sweeps, tasks

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2] / "papers"
PAGES = [
    "hulls.balls",
    "xclp.cost",
    "xclp.features",
    "xclp.secure",
    "xclp.sweeps",
    "xclp.tables",
    "ptopofl.attacks",
    "ptopofl.bounds",
    "ptopofl.continual",
    "ptopofl.curves",
    "ptopofl.overhead",
    "ptopofl.theorems",
    "statistics.equal",
]
SCRIPTS = sorted(path for path in ROOT.glob("*/*.py") if "__main__" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_one_that_its_figures_make(name: str) -> None:
    module = importlib.import_module(f"papers.{name}")
    short = name.split(".")[1]
    found = module.RESULTS.read(short)
    make = getattr(module, "page", None) or module.markdown
    assert found
    assert (module.RESULTS.folder / f"{short}.md").read_text(encoding="utf-8") == make(found)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_script_has_quick_and_json(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    if "draw(__doc__" in text:  # a script of pictures, which is wholly in common.py
        return
    assert "parser(__doc__" in text  # which has --quick, --json and --only
    assert "print_json(" in text or "finish(" in text  # which ends with it
    assert ".quick" in text


def test_a_script_of_pictures_has_quick_and_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["pictures.py", "--quick", "--json", "--only", "figure6"])
    before = {path: path.stat().st_mtime_ns for path in pictures.RESULTS.folder.iterdir()}
    draw(pictures.__doc__, pictures.RESULTS, pictures.PICTURES)
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])) == {"figure6"}
    assert {path: path.stat().st_mtime_ns for path in pictures.RESULTS.folder.iterdir()} == before


def test_the_papers_example_takes_some_ten_million_operations_a_row() -> None:
    """512·4096 to hash a row, 4096·10·100 to compare it, 10·10·50 to label it."""
    assert cost.operations()["the paper's example"]["per row"] == 512 * 4096 + 4096 * 10 * 100 + 10 * 10 * 50


def test_the_round_of_convergence_is_the_first_with_95_percent() -> None:
    assert curves.reached((1, 2, 5), (0.5, 0.96, 1.0)) == 2


def test_exact_cosines_are_those_of_all_rows_together() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = np.eye(4)[y] + 0.1 * rng.normal(size=(60, 4))
    task = tasks.Task(X, y, np.arange(60) % 4, np.arange(60) >= 40)
    shown = (np.arange(60) < 12) & ~task.test
    assert sweeps.accuracy(task, shown, 0, variant="ours", L=None) == 100.0
    assert sweeps.accuracy(task, shown, 0, variant="ours", L=256) > 90

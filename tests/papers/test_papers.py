"""The paper scripts, run as a reader would run them: quickly, with the figures read from the last line."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ROOT / "papers"
HULLS = PAPERS / "hulls"
RESULTS = HULLS / "results"

needs_olsson = pytest.mark.data("olsson.npz")


def run(*command: str) -> list[str]:
    """Run Python in the scripts' folder and return the lines it prints."""
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=HULLS,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=HANG_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def written() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in PAPERS.glob("*/results/*")}


@needs_olsson
def test_the_secure_run_gives_the_published_olsson_row() -> None:
    before = written()
    row = json.loads(run("table1.py", "--quick", "--only", "olsson", "--json")[-1])["olsson"]
    paper = {"CP": (79.17, 0.0), "CE": (68.75, 0.0), "FLP": (86.04, 1.41), "FLE": (75.0, 3.51)}
    assert {name: (row[name]["mean"], row[name]["ci95"]) for name in paper} == paper
    assert {name: row[name]["paper"] for name in paper} == {name: mean for name, (mean, _) in paper.items()}
    assert (row["CH-CP"]["mean"], row["CH-CE"]["mean"]) == (83.33, 77.08)  # Table 2
    assert (row["FLP"]["n"], row["FLE"]["n"]) == (10, 10)
    assert written() == before


@needs_olsson
def test_the_plain_script_prints_the_published_trials() -> None:
    lines = {line.split()[0]: line.split()[1:] for line in run("published.py")}
    assert lines["FLP"][:3] == ["86.04", "±", "1.41"]
    trials = "85.42 87.50 87.50 85.42 85.42 85.42 81.25 87.50 87.50 87.50"
    assert lines["FLP"][3:] == trials.split()
    assert lines["FLE"][:3] == ["75.00", "±", "3.51"]


def test_synthetic_sweeps_have_the_shape_of_figure_5() -> None:
    before = written()
    result = json.loads(run("synthetic.py", "--quick", "--json", "--only", "reference", "margin", "epsilon")[-1])
    sweeps: dict[str, list[dict[str, Any]]] = result["sweeps"]
    assert {name: len(points) for name, points in sweeps.items()} == {"reference": 4, "margin": 5, "epsilon": 7}
    for points in sweeps.values():
        for point in points:
            assert point["CP"]["mean"] >= 99.5
            assert point["FLP"]["mean"] >= (99.5 if point["epsilon"] <= 8 else 95)
            assert point["secure"] == "equal" or point["epsilon"] > 8
    assert all(point["CE"]["mean"] < 99 for point in sweeps["reference"])
    wide = sweeps["margin"][-1]
    assert (wide["CE"]["mean"], wide["FLE"]["mean"]) == (100, 100)
    assert written() == before


def test_sweeps_by_place_have_points_in_proportion_to_it() -> None:
    """N = μ · 100,000 (Appendix I.1), in the quick form of 2,500."""
    from papers.hulls.synthetic import PLACES, TIED, settings_of  # here, since scripts are run elsewhere

    for sweep in TIED:
        full = settings_of(sweep, (20_000, 80_000))
        assert sorted({(mu, n) for n, (mu, _, _) in full}) == [(mu, round(mu * 100_000)) for mu in PLACES]
        assert {n for n, _ in settings_of(sweep, (2_000,))} == {500, 1000, 1500}
    points = json.loads((RESULTS / "synthetic.json").read_text(encoding="utf-8"))["sweeps"]["margin by place"]
    assert all(point["CP"]["mean"] > 99.9 and point["secure"] == "equal" for point in points)


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("hulls/complexity.py --only 10", {"curves", "sizes", "seeds"}),
        ("hulls/pictures.py --only figure4", {"figure4"}),
        ("ptopofl/ablation.py --only trust --seeds 1", {"all parts", "no trust (Eq. 8)"}),
        ("ptopofl/privacy.py --only formula", {"formula"}),
        ("ptopofl/robustness.py --only detection", {"detection", "seeds"}),
        ("ptopofl/table1.py --only A --seeds 2", {"A"}),
    ],
)
def test_a_part_is_made_quickly_and_nothing_is_written(command: str, keys: set[str]) -> None:
    before = written()
    script, *options = command.split()
    made = json.loads(run(str(PAPERS / script), *options, "--quick", "--json")[-1])
    assert keys <= set(made)
    assert written() == before


@needs_olsson
def test_hulls_as_sent_get_simpler_as_bins_grow_and_the_secure_runs_are_the_plain_ones() -> None:
    before = written()
    found = json.loads(run("bins.py", "--quick", "--only", "olsson", "--json")[-1])["olsson"]
    assert {name: one["mean"] for name, one in found["pooled"].items()} == {
        "CP": 79.17,
        "CE": 68.75,
        "CH-CP": 83.33,
        "CH-CE": 77.08,
    }
    for n_sites in (3, 5):
        fine, coarse = (point for point in found["points"] if point["sites"] == n_sites)
        assert fine["epsilon"] < coarse["epsilon"]
        assert fine["corners"]["mean"] > coarse["corners"]["mean"]
        assert fine["secure"] == coarse["secure"] == "equal"
        assert fine["share"]["largest"] == 100  # some class has so few rows that all are corners
    assert written() == before


def test_the_theorem_counts_more_than_is_sent() -> None:
    """Theorem 5.2's count is of the hull of all quantized points, Definition 4's of the quantized hull."""
    found = json.loads(run("complexity.py", "--quick", "--only", "1", "--json")[-1])
    for curve in found["curves"]:
        assert all(sent <= 1.01 * mean for sent, mean in zip(curve["sent"], curve["mean"], strict=True))
        assert all(0 < share < 1 for share in curve["share"])
    coarse = next(curve for curve in found["curves"] if curve["c"] == 0.3)
    assert coarse["sent"][-1] < 0.9 * coarse["mean"][-1]


def test_parts_made_one_by_one_are_put_together(tmp_path: Path) -> None:
    for constant in ("10", "1"):
        run("complexity.py", "--quick", "--only", constant, "--out", str(tmp_path))
    curves = json.loads((tmp_path / "complexity.json").read_text(encoding="utf-8"))["curves"]
    assert [curve["a"] for curve in curves] == [1.0] * 6 + [10.0] * 6


@pytest.mark.parametrize(
    ("script", "write"),
    [
        ("hulls.table1", "markdown"),
        ("hulls.synthetic", "markdown"),
        ("hulls.bins", "markdown"),
        ("hulls.defaults", "markdown"),
        ("xclp.tables", "markdown"),
        ("xclp.attack", "markdown"),
        ("ptopofl.table1", "page"),
        ("ptopofl.ablation", "page"),
        ("ptopofl.robustness", "page"),
        ("ptopofl.privacy", "page"),
        ("hyperfed.cells", "page"),
    ],
)
def test_committed_tables_say_what_the_committed_figures_say(script: str, write: str) -> None:
    module = importlib.import_module(f"papers.{script}")
    name = script.split(".")[1]
    page = (module.RESULTS.folder / f"{name}.md").read_text(encoding="utf-8")
    assert getattr(module, write)(module.RESULTS.read(name)) == page


def test_committed_figures_of_table_1() -> None:
    table = json.loads((RESULTS / "table1.json").read_text(encoding="utf-8"))
    for row in table.values():
        for entry in row.values():
            assert set(entry) == {"mean", "ci95", "n", "paper"}
    assert table["olsson"]["FLP"]["mean"] == 86.04

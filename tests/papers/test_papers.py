"""The paper scripts, run as a reader would run them: quickly, with the figures read from the last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HULLS = ROOT / "papers" / "hulls"
RESULTS = HULLS / "results"
DATA = Path(os.environ.get("FEDGEOM_DATA", ROOT.parent / "shared" / "data"))

needs_olsson = pytest.mark.skipif(
    not (DATA / "olsson.npz").is_file(), reason="olsson.npz is not here; put it into the folder FEDGEOM_DATA names"
)


def run(*command: str, given: str = "") -> list[str]:
    """Run Python in the scripts' folder and return the lines it prints."""
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=HULLS,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def written() -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in RESULTS.iterdir()}


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
    result = json.loads(run("synthetic.py", "--quick", "--json")[-1])
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


def test_committed_tables_say_what_the_committed_figures_say() -> None:
    table = json.loads((RESULTS / "table1.json").read_text(encoding="utf-8"))
    for row in table.values():
        for entry in row.values():
            assert set(entry) == {"mean", "ci95", "n", "paper"}
    script = "import json, table1; print(json.dumps(table1.markdown(json.loads(input()))))"
    text = json.loads(run("-c", script, given=json.dumps(table))[-1])
    assert text == (RESULTS / "table1.md").read_text(encoding="utf-8")
    assert table["olsson"]["FLP"]["mean"] == 86.04

"""Label propagation's scripts and figures: small runs, and committed tables that say what the figures say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "papers" / "xclp" / "results"
BENCHMARKS = ROOT / "benchmarks" / "results"


def run(folder: str, *command: str, given: str = "") -> list[str]:
    """Run Python in a folder of scripts and return the lines it prints."""
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT / folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


def figures(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_row_is_made_and_nothing_is_written() -> None:
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    made = json.loads(run("papers/xclp", "tables.py", "--quick", "--only", "digits", "--json")[-1])
    row = made["digits iid 20 sites 1 %"]
    assert set(row["XCLP ours"]) == {"mean", "sd", "n", "paper"}
    assert row["XCLP ours"]["mean"] > row["per-client LP ours"]["mean"] + 50
    assert {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()} == before


def test_missing_data_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGEOM_DATA", str(tmp_path))
    assert run("papers/xclp", "tables.py", "--quick", "--only", "hipc")[0].startswith(
        "hipc is left out: hipc_tcell"
    )


@pytest.mark.parametrize("name", ["tables", "attack"])
def test_committed_tables_say_what_the_committed_figures_say(name: str) -> None:
    script = f"import json, {name}; print(json.dumps({name}.markdown(json.loads(input()))))"
    text = json.loads(run("papers/xclp", "-c", script, given=json.dumps(figures(RESULTS / f"{name}.json")))[-1])
    assert text == (RESULTS / f"{name}.md").read_text(encoding="utf-8")


def test_joint_propagation_beats_each_site_alone_in_every_row() -> None:
    rows = {title: row for title, row in figures(RESULTS / "tables.json").items() if "per-client LP code" in row}
    assert len(rows) >= 45
    for title, row in rows.items():
        alone = max(row["per-client LP code"]["mean"], row["per-client LP ours"]["mean"])
        assert row["XCLP ours"]["mean"] > alone, title
        assert row["XCLP ours"]["n"] == 3


def test_the_hamming_benchmark_reaches_its_goals() -> None:
    found = figures(BENCHMARKS / "hamming.json")
    assert {"exact", "cpu_s", "bytes", "paillier_over_default"} <= set(found["default"])
    assert {"plain", "bfv", "ot", "paillier", "default"} == set(found)
    best = found["default"]
    assert best["exact"] is True
    assert best["L"] == 4096
    assert best["cpu_s"] < 6
    assert best["bytes"] < 30e6
    assert best["paillier_over_default"] >= 100
    assert {"L1024", "L4096"} <= set(best)
    assert found["paillier"]["extrapolated"] is True


def test_the_propagation_benchmark_stays_within_memory_and_is_in_the_docs() -> None:
    found = figures(BENCHMARKS / "propagation.json")
    assert list(found) == ["1000", "5000", "10000", "50000"]
    for row in found.values():
        assert max(part["peak_gb"] for part in row.values()) < 8
        for part in row.values():
            assert part.get("residual", 0.0) <= 1e-8
            assert part.get("difference_to_dense", 0.0) <= 1e-8
    assert "difference_to_dense" in found["10000"]["cg columns, alpha 0.95"]
    script = "import json, propagation; print(json.dumps(propagation.table(json.loads(input()))))"
    text = json.loads(run("benchmarks", "-c", script, given=json.dumps(found))[-1])
    assert text in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")

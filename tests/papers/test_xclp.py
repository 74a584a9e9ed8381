"""Label propagation's scripts and figures: small runs, and committed tables that say what the figures say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgeom
from papers.xclp import tasks
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.full

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
        timeout=HANG_SECONDS,
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


def test_the_column_fedavg_is_the_librarys_and_equals_a_secure_run() -> None:
    task = tasks.digits(10, "dirichlet", 5)
    shown = tasks.show_labels(task, 0.1, 10)
    sites = tasks.labelled_sites(task, shown, tasks.centred_directions(task))
    method = tasks.fedavg_method(task, shown, rounds=3)
    assert sum(len(site) for site in sites) == shown.sum()
    # Weighted by rows, the sites' penalties ‖w‖²/(2Cn) add up to the decay of the joint objective.
    assert sum(len(site) / shown.sum() / (method.C * len(site)) for site in sites) == pytest.approx(1e-4)
    model, twin = fedgeom.run(method, sites, seed=10).model, method.plain(sites, 10).model
    for name, values in twin.parameters.items():
        assert np.array_equal(model.parameters[name], values)


def test_fedavg_classifies_rows_that_it_was_not_shown() -> None:
    task = tasks.digits(10, "iid", 5)
    found = tasks.fedavg(task, tasks.show_labels(task, 0.1, 10), 10)
    assert np.mean(found[task.test] == task.y[task.test]) > 0.85


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
    assert {"plain", "bfv", "lattice", "ot", "paillier", "default"} == set(found)
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
    assert text in (ROOT / "docs" / "xclp.md").read_text(encoding="utf-8")

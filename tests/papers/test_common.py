"""What the paper scripts share: figures that can be computed by hand, tables, options, and files that are kept."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from papers.common import (
    MissingFile,
    Results,
    bold,
    confidence,
    difference,
    figure,
    load_data,
    parser,
    percent,
    plus_minus,
    table,
    with_interval,
)
from tests.waiting import HANG_SECONDS

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.glob("papers/*/*.py")
    if "__main__" in path.read_text("utf-8")
)


def test_the_interval_is_students() -> None:
    mean, half = confidence([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302653 * 1.0 / 3**0.5, abs=1e-6)  # t(0.975, 2), deviation 1
    assert confidence([7.0]) == (7.0, 0.0)


def test_a_figure_has_an_interval_or_a_deviation() -> None:
    # deviation √50; t(0.975, 1) = 12.7062, times √50/√2 = 5
    assert figure([80.0, 90.0], paper=84.0) == {"mean": 85.0, "ci95": 63.53, "n": 2, "paper": 84.0}
    assert figure([80.0, 90.0], spread="sd") == {"mean": 85.0, "sd": 7.07, "n": 2, "paper": None}
    assert figure([81.234]) == {"mean": 81.23, "ci95": 0.0, "n": 1, "paper": None}
    assert figure([81.234], spread="sd")["sd"] == 0.0


def test_differences_are_paired() -> None:
    gap = difference([0.9, 0.8, 0.7], [0.8, 0.6, 0.4])  # 0.1, 0.2, 0.3: mean 0.2, deviation 0.1
    assert gap == {"mean": 0.2, "ci95": [-0.0484, 0.4484]}
    assert with_interval(gap) == "+0.2000 [-0.0484, +0.4484]"
    assert with_interval(gap, 2) == "+0.20 [-0.05, +0.45]"
    assert difference([0.5], [0.75]) == {"mean": -0.25, "ci95": [-0.25, -0.25]}


def test_percent_compares_as_text_and_can_count_classes_alike() -> None:
    assert percent([1, 2, 3, -1], ["1", "2", "2", "3"]) == 50.0
    assert percent(["a", "a", "a", "a"], ["a", "a", "a", "b"]) == 75.0
    assert percent(["a", "a", "a", "a"], ["a", "a", "a", "b"], balanced=True) == 50.0


def test_figures_and_tables_as_text() -> None:
    assert plus_minus(figure([85.0, 87.0])) == "86.00 ± 12.71"
    assert plus_minus(figure([85.0, 87.0], spread="sd"), 1) == "86.0 ± 1.4"
    assert plus_minus(figure([85.0])) == "85.00"
    assert (bold("x"), bold("x", False)) == ("**x**", "x")
    assert table(["", "a"], [("row", 1), ("other", "–")]) == [
        "| | a |",
        "|---|---|",
        "| row | 1 |",
        "| other | – |",
    ]


def test_only_means_all_unless_something_is_said() -> None:
    options = parser("", ["a", "b c"])
    assert vars(options.parse_args([])) == {"quick": False, "json": False, "only": ["a", "b c"]}
    assert options.parse_args(["--only", "b c", "--quick"]).only == ["b c"]
    with pytest.raises(SystemExit):
        options.parse_args(["--only", "d"])


def test_rows_that_are_not_made_again_stay_and_keep_their_order(tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    assert results.read("t") == {}
    results.keep("t", {"b": 1, "c 1": 2, "b-2": 3}, ["b", "b-2", "c d", "c"])
    whole = results.keep("t", {"c d": 4, "b": 5}, ["b", "b-2", "c d", "c"], lambda rows: " ".join(rows))
    assert list(whole.items()) == [("b", 5), ("b-2", 3), ("c d", 4), ("c 1", 2)]
    assert results.read("t") == whole
    assert (tmp_path / "results" / "t.md").read_text(encoding="utf-8") == "b b-2 c d c 1"


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGEOM_DATA", str(tmp_path))
    with pytest.raises(MissingFile, match=r"cells\.npz is not here; .* FEDGEOM_DATA"):
        load_data("cells.npz")


def test_all_scripts_are_found() -> None:
    assert len(SCRIPTS) == 51


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_has_the_options(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert ended.value.code == 0
    options = capsys.readouterr().out.split("options:")[1].split()
    assert {"--quick", "--json", "--only"} <= set(options)


@pytest.mark.parametrize(
    "script", ["papers/hulls/defaults.py", "papers/xclp/attack.py", "papers/ptopofl/ablation.py"]
)
def test_scripts_run_from_any_folder(script: str, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(ROOT / script), "--help"],
        cwd=tmp_path,
        capture_output=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr

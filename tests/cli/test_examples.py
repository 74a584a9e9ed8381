"""The examples run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SAY = {
    "quickstart.py": "test rows are right",
    "own_label_names.py": "Grignolino = G = leicht",
    "files.py": "report.html",
    "own_method.py": "'plain twin': 1",
    "own_algorithm.py": "the coordinator saw sums only",
    "own_reader.py": "rows from .arff files that the joint model fits: {'site-1': '100%'",
}


def test_all_are_here():
    assert {path.name for path in FOLDER.glob("*.py")} == set(SAY)


@pytest.mark.parametrize("name", SAY)
def test_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / name)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert SAY[name] in done.stdout
    assert not list(tmp_path.iterdir())

"""The examples run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import data_file, tiered
from tests.waiting import HANG_SECONDS

FOLDER = Path(__file__).parents[2] / "examples"
SAY = {
    "quickstart.py": "test rows are right",
    "own_label_names.py": "Grignolino = G = leicht",
    "files.py": "report.html",
    "own_method.py": "'secure_equals_plain': 1",
    "own_algorithm.py": "the coordinator saw sums only",
    "own_reader.py": "rows from .arff files that the joint model fits: {'site-1': '100%'",
    "pandas_frame.py": "visits, 0 patients on both sides",
    "scanpy_cells.py": "4 donors: 1.000 of 270 cells that were kept aside are called rightly",
    "scikit_learn.py": "AUC: 0.99",
    "torch_module.py": "fedper: {'site-1': 0.9",
    "naive_bayes.py": "naive Bayes: 0.9",
    "fedexp.py": "fedgeom.compare({'own-fedexp': FedExP(n_rounds=3, epochs=1), 'fedavg'",
    "fedsam.py": "own-fedsam: 0.9",
    "own_network.py": "fedrod: 0.9",
    "own_aggregation.py": "nearest: 0.9",
    "study.py": "learning_rate = 0.3",
}
NEEDS = {
    "pandas_frame.py": "pandas",
    "scanpy_cells.py": "anndata",
    "torch_module.py": "torch",
    "fedsam.py": "torch",
    "own_network.py": "torch",
}
"""Examples that need an extra, and what of it they import."""
KANG = "kang_pbmc_8donors.npz"


def said(name, folder, data):
    """Run an example in an empty folder, and return what it prints."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / name)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=HANG_SECONDS,
        check=False,
        env=os.environ | {"FEDGEOM_DATA": str(data)},
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return done.stdout


LINES = {
    "naive_bayes.py": 45,
    "fedexp.py": 25,
    "fedsam.py": 28,
    "own_network.py": 34,
    "study.py": 12,
    "own_aggregation.py": 26,
    "own_reader.py": 40,
}
"""A task is done in no more lines of code than this."""


@pytest.mark.parametrize("name", LINES)
def test_a_researchers_task_is_short_and_needs_public_names_alone(name):
    source = (FOLDER / name).read_text(encoding="utf-8")
    lines = source.split('"""', 2)[2].splitlines()
    assert sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines) <= LINES[name]
    modules = set(re.findall(r"^(?:from|import) (fedgeom[\w.]*)", source, re.MULTILINE))
    assert modules <= {"fedgeom", "fedgeom.extend", "fedgeom.partition", "fedgeom.testing"}


def test_all_are_here():
    assert {path.name for path in FOLDER.glob("*.py")} == set(SAY)


@pytest.mark.parametrize("name", tiered(SAY, "quickstart.py", "own_method.py"))
def test_example(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{name} needs an extra")
    assert SAY[name] in said(name, tmp_path, tmp_path / "no data")


@pytest.mark.data(KANG)
def test_real_cells_of_eight_donors(tmp_path):
    pytest.importorskip("anndata", reason="needs the bio extra")
    printed = said("scanpy_cells.py", tmp_path, data_file(KANG).parent.absolute())
    found = re.search(r"8 donors: (0\.\d+) of 4,011 cells", printed)
    assert found is not None, printed
    assert float(found[1]) > 0.85
    assert "kept as csr, float32; the first cell is AAAC" in printed

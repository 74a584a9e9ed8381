"""The demonstration, as a user starts it: in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from fedgeom.data.datasets import find_file
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.record import read_folder
from tests.waiting import HANG_SECONDS, until

COMMAND = [sys.executable, "-c", "from fedgeom.cli import app; app()"]


def start(folder, *words, **env):
    return subprocess.Popen(
        [*COMMAND, *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        preexec_fn=heed_interrupts,
    )


def heed_interrupts():
    """A shell's background job, and so all it starts, would ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process, code=0):
    output, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == code, output
    return output


def test_demo_without_any_data(tmp_path):
    output = finish(start(tmp_path, "demo", FEDGEOM_DATA=str(tmp_path)))
    said = (
        "gaps, columns of words",
        "bösartig",
        "masked hulls",
        "each site alone",
        "8 of 8 local names",
        "demo-1",
    )
    for piece in said:
        assert piece in output
    folder = tmp_path / "runs" / "demo-1"
    assert (folder / "picture.png").is_file()
    assert (folder / "report.html").is_file()
    assert {"majority", "local", "own", "pooled"} == {one.model for one in read_evaluation(folder).scores}
    found = read_evaluation(folder)
    assert found["own"].accuracy.value > 0.88
    line = next(line.strip() for line in output.splitlines() if line.strip().startswith("fedgeom predict"))
    said = finish(start(tmp_path, *line.split()[1:]))
    assert "rows agree with 'diagnosis'" in said
    assert (tmp_path / "predictions.csv").read_text().startswith("row,class,probability")


@pytest.mark.data("hipc_tcell_5hospitals.npz")
def test_demo_over_five_hospitals(tmp_path):
    folder = find_file("hipc").parent  # the command runs in another folder
    output = finish(start(tmp_path, "demo", "--sites-data", "hipc", "--out", "here/d", FEDGEOM_DATA=str(folder)))
    for piece in ("Stanford", "T4 virgen", "P-801", "of 50 local names"):
        assert piece in output
    found = read_evaluation(tmp_path / "here" / "d-1")
    assert found["own"].accuracy.low > 0.7
    assert found["pooled"].accuracy.low > 0.9


@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full)]
)
def test_ctrl_c_and_sigterm_leave_a_folder_one_can_read(tmp_path, sign, code):
    process = start(tmp_path, "demo", "--sites-data", "digits")
    folder = tmp_path / "runs" / "demo-1"
    ledger = folder / "ledger.jsonl"
    until(lambda: (ledger.exists() and ledger.stat().st_size) or process.poll() is not None, pause=0.005)
    assert process.poll() is None, "the demonstration ended before it could be interrupted"
    process.send_signal(sign)
    output = finish(process, code=code)
    assert "Interrupted. What happened so far is in runs/demo-1" in output
    assert "Traceback" not in output
    content = read_folder(folder)
    assert content["status"]["state"] == "interrupted"
    assert len(content["ledger"])
    assert "interrupted" in finish(start(tmp_path, "ledger", folder))


def test_start_is_quick(tmp_path):
    """Neither the package nor its help loads what only some commands need."""
    code = (
        "import sys, fedgeom, fedgeom.cli;"
        "heavy = {'matplotlib', 'pandas', 'anndata', 'sklearn', 'scipy', 'torch', 'numpy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


@pytest.mark.data("olsson.npz")
def test_a_set_whose_parts_are_the_published_ones_can_be_shown_too(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGEOM_DATA", str(find_file("olsson").parent))  # the command runs in another folder
    said = finish(start(tmp_path, "demo", "--sites-data", "olsson"))
    assert "report.html" in said

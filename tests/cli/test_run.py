"""The commands, called in this process."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from fedgeom import __version__
from fedgeom.cli import app
from fedgeom.cli.outcome import kept, new_folder
from fedgeom.cli.screen import console
from fedgeom.data.sets import SETS, load_set
from fedgeom.errors import InputError

runner = CliRunner()


def call(*words, code=0, only_results=False):
    result = runner.invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.stdout if only_results else result.output


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A folder with three hospitals' CSV files, columns in different orders, and a federation file."""
    folder = tmp_path_factory.mktemp("federation")
    words = [
        {"benign": "b", "malignant": "m"},
        {"benign": "gut", "malignant": "böse"},
        {"benign": "0", "malignant": "1"},
    ]
    for at, (site, names) in enumerate(zip(load_set("breast-cancer", n_sites=3).train, words, strict=True)):
        order = list(range(30)) if at != 1 else list(range(29, -1, -1))
        with (folder / f"h{at}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*(site.columns[i] for i in order), "diagnosis"])
            writer.writerows([*row[order], names[y]] for row, y in zip(site.X, site.y, strict=True))
    sites = "".join(f'[[sites]]\nname = "Hospital {at}"\nfile = "h{at}.csv"\n' for at in range(3))
    text = f'label = "diagnosis"\nholdout = 0.3\n[parameters]\nembedding = "discriminant"\n{sites}'
    (folder / "study.toml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def finished(federation):
    output = call("run", federation / "study.toml", "--out", federation / "runs" / "study")
    return federation / "runs" / "study-1", output


def test_run(finished):
    folder, output = finished
    for piece in ("masked hulls", "own rows only", "böse", "Hospital 1", "quantized hulls", "picture.png"):
        assert piece in output
    assert "pooled rows" not in output  # words differ and nobody knows the truth
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "ledger.jsonl", "model.safetensors", "picture.png", "report.html"} <= names
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"
    comparison = json.loads((folder / "comparison.json").read_text())
    assert min(comparison["federated"]) > 0.8


def test_run_again_never_overwrites(federation, finished):
    before = (finished[0] / "config.json").stat().st_mtime_ns
    output = call("run", federation / "study.toml", "--out", federation / "runs" / "study", "--seed", 5)
    assert "study-2" in output
    assert json.loads((federation / "runs" / "study-2" / "config.json").read_text())["seed"] == 5
    assert (finished[0] / "config.json").stat().st_mtime_ns == before


def test_another_method(federation, tmp_path):
    text = (federation / "study.toml").read_text().replace('embedding = "discriminant"', 'space = "euclidean"')
    for at in range(3):
        text = text.replace(f'"h{at}.csv"', f'"{federation}/h0.csv"')
    (tmp_path / "m.toml").write_text('method = "moments"\n' + text)
    output = call("run", tmp_path / "m.toml", "--out", tmp_path / "m")
    assert "federated" in output
    assert "picture" not in output


def test_ledger(finished):
    output = call("ledger", finished[0], "--site", "Hospital 2")
    assert "What left Hospital 2" in output
    assert "Hospital 1" not in output
    entries = json.loads(call("ledger", finished[0], "--json"))
    assert {entry["site"] for entry in entries} == {"Hospital 0", "Hospital 1", "Hospital 2"}
    assert "no message of a site 'X'" in call("ledger", finished[0], "--site", "X", code=2)
    assert "is not a run folder" in call("ledger", finished[0].parent, code=2)


def test_predict(federation, finished, tmp_path):
    folder, _ = finished
    file = federation / "h0.csv"
    words = ("predict", folder, file, "--label", "diagnosis", "--site", "Hospital 0")
    assert "agree with 'diagnosis'" in call(*words)
    rows = list(csv.reader(call(*words, only_results=True).splitlines()))
    assert rows[0] == ["row", "class", "probability"]
    assert {row[1] for row in rows[1:]} == {"b", "m"}
    target = tmp_path / "p.csv"
    call("predict", folder / "model.safetensors", file, "--label", "diagnosis", "--out", target)
    assert {line.split(",")[1] for line in target.read_text().splitlines()[1:]} == {"0", "1"}
    assert "exists" in call("predict", folder, file, "--label", "diagnosis", "--out", target, code=2)
    assert "hold text" in call("predict", folder, file, code=2)
    assert "Hospital 9" in call("predict", folder, file, "--label", "diagnosis", "--site", "Hospital 9", code=2)


def test_methods_and_data(monkeypatch, tmp_path):
    output = call("methods")
    assert "hulls" in output
    assert "not whose and not their names" in output
    monkeypatch.setenv("FEDGEOM_DATA", str(tmp_path))
    output = " ".join(call("data").split())
    for name in SETS:
        assert name in output
    assert "put hipc_tcell_5hospitals.npz" in output


def test_version_and_help():
    assert call("--version").strip() == f"fedgeom {__version__}"
    assert "demo" in call("--help")


def test_errors_are_one_message(tmp_path):
    output = call("run", tmp_path / "none.toml", code=2)
    assert "does not exist" in output
    assert "Traceback" not in output


def test_a_refused_run_leaves_no_folder(federation, tmp_path):
    text = (
        (federation / "study.toml")
        .read_text()
        .replace('"discriminant"', '"none"')
        .replace('"h', f'"{federation}/h')
    )
    (tmp_path / "a.toml").write_text(text)
    assert "rows have 30 columns; the disc has 2" in call(
        "run", tmp_path / "a.toml", "--out", tmp_path / "r", code=2
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_new_folder(tmp_path):
    assert [new_folder(tmp_path / "x").name for _ in range(3)] == ["x-1", "x-2", "x-3"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no folder can be made"):
        new_folder(tmp_path / "file" / "x")


def test_interrupted_before_the_run_began(tmp_path):
    folder = new_folder(tmp_path / "x")
    with pytest.raises(KeyboardInterrupt), kept(folder, console()):
        raise KeyboardInterrupt
    assert not folder.exists()

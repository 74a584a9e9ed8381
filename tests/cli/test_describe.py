"""`fedgeom describe`: a federation file in, a table, a frame as CSV and pages out."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.calling import call, write_raw


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("describe")
    write_raw(folder, 'method = "ridge"\nholdout = 0.25\n')
    return folder / "raw.toml"


def test_a_file_is_described_whatever_its_method_is(raw: Path, tmp_path: Path) -> None:
    printed = call("describe", raw, "--out", tmp_path / "told")
    assert "All sites' rows together (3 sites)" in printed
    assert "mean ± sd" in printed
    assert "Verdict" not in printed
    folder = tmp_path / "told-1"
    lines = list(csv.DictReader((folder / "description.csv").open(encoding="utf-8")))
    assert {line["class"] for line in lines} > {"all"}
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "What are the rows of 3 sites like, together?" in report
    assert "Nobody knows" not in report
    assert "fedgeom predict" not in report
    assert "<table>" in (folder / "description.html").read_text(encoding="utf-8")
    again = call("describe", folder)
    assert again.splitlines()[0] in printed


def test_classes_quantiles_and_codes_are_options(raw: Path, tmp_path: Path) -> None:
    printed = call("describe", raw, "--no-classes", "--quantiles", ".1,.9", "--out", tmp_path / "told")
    assert "quantiles 10 %, 90 %" in printed
    lines = list(csv.DictReader((tmp_path / "told-1" / "description.csv").open(encoding="utf-8")))
    assert {line["class"] for line in lines} == {"all"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--quantiles", "half"], "--quantiles half given; wanted numbers from 0 to 1"),
        (["--quantiles", "2"], "wanted a list of numbers from 0 to 1"),
        (["--per-site"], "secure_only = true, but these settings show the coordinator how many gaps"),
        (["--categories", "nothing"], "no column is called 'nothing'"),
        (["--policy", "loose"], "wanted one of: strict, relaxed"),
    ],
)
def test_wrong_options_are_refused_in_words(raw: Path, options: list[str], said: str) -> None:
    assert said in " ".join(call("describe", raw, *options, code=2).split())


def test_a_folder_without_a_description_is_refused(raw: Path, tmp_path: Path) -> None:
    call("run", raw, "--out", tmp_path / "run")
    assert "wanted the folder of a description" in " ".join(call("describe", tmp_path / "run-1", code=2).split())
    assert "does not exist" in call("describe", tmp_path / "nothing.toml", code=2)

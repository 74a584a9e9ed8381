"""`fedgeom compare` and `fedgeom sweep`: methods and settings over seeds, one table."""

from __future__ import annotations

import csv
import json

import pytest

import fedgeom
from tests.cli.calling import call, write_csv, write_raw

SWEEP = """label = "kind"
seed = 2
[parameters]
n_rounds = 2
[sweep]
seeds = 2
methods = ["fedavg", "fedprox"]
grid.learning_rate = [0.000001, 0.3]
"""
COMPARE = """label = "kind"
seed = 2
[compare.fedavg]
n_rounds = 2
[compare.ridge]
features = "conv"
shape = [2, 2, 1]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    sites = fedgeom.load_set("wine", n_sites=3, test_share=0.0).train
    for site in sites:
        write_csv(folder / f"{site.name}.csv", site, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    (folder / "s.toml").write_text(SWEEP + blocks)
    (folder / "c.toml").write_text(COMPARE + blocks)
    (folder / "plain.toml").write_text('method = "moments"\nlabel = "kind"\n' + blocks)
    return folder


def test_a_sweep_its_files_and_a_second_call(folder):
    file = folder / "s.toml"
    flat = " ".join(call("sweep", file, "--out", folder / "s").split())
    for piece in (
        "2 rows over 3 sites with 178 rows of data, 2 seeds: 12 runs",
        "learning_rate = 0.3",
        "2 of 2",
        "Take fed",
    ):
        assert piece in flat
    kept = folder / "s-1"
    found = [one for one in json.loads((kept / "sweep.json").read_text())["entries"] if one["stage"] == "tested"]
    assert [(one["row"], one["seed"]) for one in found] == [
        (name, seed) for seed in (2, 3) for name in ("fedavg", "fedprox")
    ]
    lines = list(csv.DictReader((kept / "sweep.csv").open()))
    assert {line["settings"] for line in lines if line["stage"] == "tested"} == {'{"learning_rate":0.3}'}
    assert "<html" in (kept / "sweep.html").read_text()
    before = (kept / "sweep.json").read_text()
    call("sweep", file, "--resume", kept)
    assert (
        kept / "sweep.json"
    ).read_text() == before  # seconds are those of the first time: nothing was run again


def test_a_comparison_and_a_recommendation(folder):
    file = folder / "c.toml"
    text = call("compare", file, "--methods", "moments,fedavg,ridge", "--seeds", 2, "--out", folder / "c")
    flat = " ".join(text.split())
    for piece in (
        "4 methods over 3 sites with 178 rows of data, 2 seeds: 8 runs",
        "majority class",
        "pooled rows",
        "from the best",
        "Take ",
    ):
        assert piece in flat
    assert "ridge: " in flat  # rows are no images of 2 × 2 cells, and it says so
    found = json.loads((folder / "c-1" / "comparison.json").read_text())
    assert sorted({(one["row"], one["seed"]) for one in found["entries"]}) == [
        (name, seed) for name in ("as run: ridge", "fedavg", "moments", "ridge") for seed in (2, 3)
    ]
    assert "Take " in (folder / "c-1" / "comparison.html").read_text()
    tested = {one["row"]: one["evaluation"]["rows"] for one in found["entries"] if one["evaluation"]}
    assert set(tested) == {"as run: ridge", "fedavg", "moments"}
    assert len(set(tested.values())) == 1
    taken = next(one["terms"] for one in found["entries"] if one["row"] == "as run: ridge")
    assert (taken["rule"], taken["balanced"], taken["alpha"]) == ("discriminant", True, "folds")
    again = call("compare", file, "--methods", "moments,fedavg", "--seeds", 2, "--resume", folder / "c-1")
    assert "Take " in again


def test_who_interrupts_is_told_how_to_go_on(folder, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedgeom.engines.benchmark.run", interrupt)
    text = call("compare", folder / "c.toml", "--methods", "moments", "--out", folder / "i", code=130)
    assert f"--methods moments --seeds 1 --resume {folder / 'i-1'}" in text.replace("\n", "")


def test_raw_tables_are_prepared_in_every_run(tmp_path):
    file = write_raw(tmp_path, '[sweep]\nseeds = 1\nmethods = ["ridge"]\ngrid.alpha = [1.0, 100.0]\n')
    text = " ".join(call("sweep", file, "--out", tmp_path / "s").split())
    assert "alpha = " in text
    found = json.loads((tmp_path / "s-1" / "sweep.json").read_text())
    assert [one["row"] for one in found["entries"] if one["stage"] == "tested"] == ["ridge"]


def test_raw_tables_are_prepared_for_every_method(tmp_path):
    file, out = write_raw(tmp_path, 'method = "ridge"\n'), tmp_path / "c"
    text = " ".join(call("compare", file, "--methods", "moments,ridge", "--seeds", 1, "--out", out).split())
    assert "2 methods over 3 sites" in text
    assert "Take " in text
    assert "failed" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sweep", "s.toml", "--resume", "x", "--out", "y"), "leave --out away"),
        (("compare", "c.toml", "--resume", "x", "--out", "y"), "leave --out away"),
        (("sweep", "plain.toml"), "there is no [sweep]"),
        (("compare", "c.toml", "--seeds", "0"), "wanted 1 or more"),
        (("compare", "c.toml", "--methods", "momens"), "Did you mean 'moments'"),
    ],
)
def test_what_is_refused(folder, words, said):
    command, file, *rest = words
    assert said in call(command, folder / file, *rest, code=2)

"""`fedgeom sweep`: settings over seeds, one table."""

from __future__ import annotations

import csv
import json

import pytest

import fedgeom
from tests.cli.calling import call, write_csv, write_raw

SWEEP = """label = "kind"
seed = 2
[parameters]
rounds = 2
[sweep]
seeds = 2
methods = ["fedavg", "fedprox"]
grid.rate = [0.000001, 0.3]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    sites = fedgeom.load_set("wine", n_sites=3, test_share=0.0).train
    for site in sites:
        write_csv(folder / f"{site.name}.csv", site, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    (folder / "w.toml").write_text(SWEEP + blocks)
    return folder / "w.toml"


def test_one_table_its_files_and_a_second_call(file):
    text = call("sweep", file, "--out", file.parent / "s")
    flat = " ".join(text.split())
    for piece in (
        "2 rows over 3 sites with 178 rows of data, 2 seeds: 12 runs",
        "rate = 0.3",
        "2 of 2",
        "Take fed",
    ):
        assert piece in flat
    folder = file.parent / "s-1"
    found = json.loads((folder / "sweep.json").read_text())
    assert [(one["method"], one["seed"]) for one in found["tested"]] == [
        (name, seed) for seed in (2, 3) for name in ("fedavg", "fedprox")
    ]
    chosen = {
        line["settings"] for line in csv.DictReader((folder / "sweep.csv").open()) if line["stage"] == "tested"
    }
    assert chosen == {'{"rate":0.3}'}
    assert "<html" in (folder / "sweep.html").read_text()
    before = (folder / "sweep.json").read_text()
    call("sweep", file, "--resume", folder)
    assert (
        folder / "sweep.json"
    ).read_text() == before  # seconds are those of the first time: nothing was run again


def test_raw_tables_are_prepared_in_every_run(tmp_path):
    file = write_raw(tmp_path, '[sweep]\nseeds = 1\nmethods = ["ridge"]\ngrid.alpha = [1.0, 100.0]\n')
    text = " ".join(call("sweep", file, "--out", tmp_path / "s").split())
    assert "alpha = " in text
    found = json.loads((tmp_path / "s-1" / "sweep.json").read_text())
    assert [one["method"] for one in found["tested"]] == ["ridge"]


def test_what_is_refused(file):
    assert "leave --out away" in call("sweep", file, "--resume", "x", "--out", "y", code=2)
    plain = file.parent / "plain.toml"
    plain.write_text('method = "moments"\nlabel = "kind"\n' + file.read_text()[len(SWEEP) :])
    assert "there is no [sweep]" in call("sweep", plain, code=2)

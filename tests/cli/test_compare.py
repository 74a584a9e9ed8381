"""`fedgeom compare`: several methods, one table."""

from __future__ import annotations

import json

import pytest

import fedgeom
from tests.cli.calling import call, write_csv, write_raw


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    sites = fedgeom.load_set("wine", n_sites=3, test_share=0.0).train
    for site in sites:
        write_csv(folder / f"{site.name}.csv", site, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    images = '[compare.ridge]\nfeatures = "conv"\nshape = [2, 2, 1]\n'
    (folder / "w.toml").write_text(f'label = "kind"\nseed = 2\n[compare.fedavg]\nrounds = 2\n{images}{blocks}')
    return folder / "w.toml"


def test_one_table_and_a_recommendation(file):
    out = file.parent / "c"
    text = call("compare", file, "--methods", "moments,fedavg,ridge", "--seeds", 2, "--out", out)
    flat = " ".join(text.split())
    for piece in (
        "3 methods over 3 sites with 178 rows",
        "majority class",
        "pooled rows",
        "from the best",
        "Take ",
    ):
        assert piece in flat
    assert "ridge: " in flat  # rows are no images of 2 × 2 cells, and it says so
    found = json.loads((file.parent / "c-1" / "comparison.json").read_text())
    assert sorted({(one["method"], one["seed"]) for one in found["entries"]}) == [
        (name, seed) for name in ("fedavg", "moments", "ridge") for seed in (2, 3)
    ]
    again = call("compare", file, "--methods", "moments,fedavg", "--seeds", 2, "--resume", file.parent / "c-1")
    assert "Take " in again


def test_raw_tables_are_prepared_for_every_method(tmp_path):
    file, out = write_raw(tmp_path, 'method = "ridge"\n'), tmp_path / "c"
    text = " ".join(call("compare", file, "--methods", "moments,ridge", "--seeds", 1, "--out", out).split())
    assert "2 methods over 3 sites" in text
    assert "Take " in text
    assert "failed" not in text


def test_what_is_refused(file):
    assert "wanted 1 or more" in call("compare", file, "--seeds", 0, code=2)
    assert "leave --out away" in call("compare", file, "--resume", "x", "--out", "y", code=2)
    assert "Did you mean 'moments'" in call("compare", file, "--methods", "momens", code=2)

"""`fedgeom cost`: what a job will cost, for people and for machines."""

from __future__ import annotations

import json

import pytest

import fedgeom
from tests.cli.calling import call, write_csv


@pytest.fixture
def wines(tmp_path):
    """Write three sites' files and a federation file."""
    sites = fedgeom.load_set("wine", n_sites=3).train
    for site in sites:
        write_csv(tmp_path / f"{site.name}.csv", site, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    (tmp_path / "w.toml").write_text(
        f'method = "moments"\nlabel = "kind"\n[parameters]\nspace = "euclidean"\n{blocks}'
    )


def test_the_figures_are_those_of_the_run_that_follows(tmp_path, wines):
    found = json.loads(call("cost", tmp_path / "w.toml", "--json", only_results=True))["3"]
    call("run", tmp_path / "w.toml", "--out", tmp_path / "r")
    ledger = fedgeom.Ledger.load(tmp_path / "r-1" / "ledger.jsonl")
    assert found["total_up"] == ledger.sent()
    assert found["total_down"] == sum(entry.received for entry in ledger)


def test_people_read_tables(tmp_path, wines):
    said = call("cost", tmp_path / "w.toml", "--sites", "1000")
    for words in ("moments over 3 sites", "1,000 sites", "a site sends", "exchange sealed shares of keys"):
        assert words in said
    assert not (tmp_path / "runs").exists()


def test_a_job_that_cannot_run_is_refused(tmp_path, wines):
    (tmp_path / "site-3.csv").unlink()
    assert "site-3" in call("cost", tmp_path / "w.toml", code=2)

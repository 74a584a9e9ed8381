"""`fedgeom check`: a report that people read, one that machines read, and a code; `fedgeom run` begins with it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedgeom
from tests.cli.calling import call, write_csv


@pytest.fixture
def wines(tmp_path):
    """Write three sites' files and a federation file; return the sites."""
    sites = fedgeom.load_set("wine", n_sites=3).train
    for site in sites:
        write_csv(tmp_path / f"{site.name}.csv", site, "kind")
    blocks = "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites)
    (tmp_path / "w.toml").write_text(
        f'method = "moments"\nlabel = "kind"\nholdout = 0.3\n[parameters]\nspace = "euclidean"\n{blocks}'
    )
    return sites


def test_a_federation_that_is_ready(tmp_path, wines):
    said = call("check", tmp_path / "w.toml")
    assert "moments over 3 sites" in said
    assert "site-1" in said
    assert f"ready: fedgeom run {tmp_path / 'w.toml'}" in said
    assert not (tmp_path / "runs").exists()


def test_all_faults_are_listed_and_the_code_is_1(tmp_path, wines):
    for site in wines[:2]:
        site.X[7, 2] = np.nan
        write_csv(tmp_path / f"{site.name}.csv", site, "kind")
    (tmp_path / "site-3.csv").unlink()
    said = " ".join(call("check", tmp_path / "w.toml", code=1).split())
    assert "sites 'site-1', 'site-2': row 9, column 'ash' is nan" in said
    assert "site 'site-3': " in said
    assert '(prepare = "table"), drop the rows' in said
    assert "not ready: 2 faults" in said


def test_json_is_for_machines(tmp_path, wines):
    found = json.loads(call("check", tmp_path / "w.toml", "--json", only_results=True))
    assert found["ready"]
    assert found["sites"][0]["name"] == "site-1"
    assert sum(found["sites"][0]["classes"].values()) == found["sites"][0]["rows"]
    found = json.loads(call("check", tmp_path / "no.toml", "--json", code=1, only_results=True))
    assert "does not exist" in found["findings"][0]["what"]


def test_a_run_begins_with_the_check_and_tells_of_warnings(tmp_path, wines):
    wines[0].X[:, 2] = 0.0
    write_csv(tmp_path / "site-1.csv", wines[0], "kind")
    said = " ".join(call("run", tmp_path / "w.toml", "--out", tmp_path / "r").split())
    first = said.index("warning: site 'site-1' has columns with one value in all rows")
    assert first < said.index("What left each site")  # before anything is sent, and once more in the end
    assert said.rindex("warning: site 'site-1' has columns") > said.index("What left each site")
    wines[1].X[3, 3] = np.inf
    write_csv(tmp_path / "site-2.csv", wines[1], "kind")
    (tmp_path / "site-3.csv").unlink()
    said = " ".join(call("run", tmp_path / "w.toml", "--out", tmp_path / "r", code=2).split())
    assert "not ready, 2 faults:" in said
    assert "site 'site-2': row 5, column 'alcalinity_of_ash' is inf" in said
    assert "does not exist" in said
    assert not (tmp_path / "r-2").exists()


def test_names_from_files_cannot_rule_the_terminal(tmp_path, wines):
    text = (tmp_path / "site-1.csv").read_text().replace("ash", "a\x1b[2J[red]h")
    (tmp_path / "site-1.csv").write_text(text)
    said = call("check", tmp_path / "w.toml", code=1)
    assert "\x1b[2J" not in said
    assert "[red]" in said

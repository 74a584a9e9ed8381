"""``fedgeom site``: init, preview, ledger, start, and predicting with what a run left."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest

import fedgeom
from fedgeom.deploy.answers import read_data
from fedgeom.deploy.coordinator import COORDINATOR_LOCK
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.federation.session import Session
from fedgeom.storage import locked
from tests.cli.deploying import call
from tests.deploy.making import NAMES
from tests.deploy.test_answering import RUN, FolderEngine


def test_a_new_node_key(here, made):
    identity = made.roster()["anna"].hex()
    before = made.nats_keys()["anna"]
    assert identity in call("site", "init", "--name", "anna", "--new-node-key")
    assert "not of 'bert'" in call("site", "init", "--name", "bert", "--folder", "anna", "--new-node-key", code=2)
    call("coordinator", "admit", "anna/anna.pub", "--folder", "c")
    assert made.nats_keys()["anna"] != before


def test_preview(here, made):
    (here / "study.toml").write_text('method = "hulls"\n[parameters]\nepsilon = 0.05\n')
    shown = call("site", "preview", "study.toml", "--folder", "anna", "--picture")
    for piece in ("Nothing was sent", "2 phantom sites", "made up", "hulls.encode", "corners", "share"):
        assert piece in shown
    assert (here / "anna" / "preview.png").exists()
    assert "does not exist" in call("site", "preview", "none.toml", "--folder", "anna", code=2)


def test_a_preview_rehearses_the_preparation_of_raw_rows(here, made):
    table = dict(np.load(here / "anna.npz"))
    table["X"][5, 1] = np.nan
    np.savez(here / "anna.npz", **table)
    (here / "study.toml").write_text('method = "ridge"\nprepare = "table"\n')
    shown = call("site", "preview", "study.toml", "--folder", "anna")
    assert "ended early" not in shown
    for piece in ("Nothing was sent", "prepare.", "ridge.gram"):
        assert piece in shown


def test_checking_a_table_by_itself_and_against_a_job(here, made):
    (here / "study.toml").write_text('method = "hulls"\n[parameters]\nepsilon = 0.05\n')
    assert "ready: the table" in call("site", "check", "--folder", "anna")
    assert "ready: the table, for study.toml" in call("site", "check", "study.toml", "--folder", "anna")
    table = dict(np.load(here / "anna.npz"))
    table["X"][5, 1] = np.nan
    table["y"][0] = "odd"
    np.savez(here / "anna.npz", **table)
    said = call("site", "check", "--folder", "anna", code=1)
    assert "row 5, column 1 is nan" in said
    assert "'odd'" not in said  # which classes are too small is the method's and the policy's matter
    said = call("site", "check", "study.toml", "--folder", "anna", code=1)
    assert "not ready: 2 faults; the site would leave such a run" in said
    found = json.loads(call("site", "check", "study.toml", "--folder", "anna", "--json", code=1))
    assert [one["topic"] for one in found["findings"]] == ["gaps", "classes"]
    shown = call("site", "preview", "study.toml", "--folder", "anna")
    assert "row 5, column 1 is nan" in shown
    assert "The rehearsal ended early: the site's table is not ready" in shown
    shown = call("site", "approve", "study.toml", "--folder", "anna", "--yes")
    assert "The site's table is not ready for this job" in shown
    assert "row 5, column 1 is nan" in shown
    assert "site init" in call("site", "check", "--folder", "c", code=2)


def test_an_empty_site_ledger(made):
    assert "0 questions, 0 bytes" in call("site", "ledger", "--folder", "anna")


def test_starting_refuses_what_cannot_work(here, made):
    (here / "anna" / "roster.json").unlink()
    assert "ask the coordinator for roster.json" in call("site", "start", "--folder", "anna", code=2)
    shutil.copy(here / "c" / "roster.json", here / "anna")
    (here / "anna" / "ca.pem").unlink()
    assert "ask the coordinator for ca.pem" in call("site", "start", "--folder", "anna", code=2)
    shutil.copy(here / "bert" / "identity.key", here / "anna")
    assert "does not hold 'anna' with this site's identity" in call("site", "start", "--folder", "anna", code=2)
    with locked(made.path / COORDINATOR_LOCK, "busy"):
        assert "running already" in call("coordinator", "start", "--folder", "c", code=2)


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.Hulls(epsilon=0.05),
        fedgeom.FedAvg(n_rounds=2),
        fedgeom.Ditto(n_rounds=2),
        fedgeom.Shrunk(n_rounds=2),
    ],
)
def test_a_site_predicts_with_what_a_run_left_in_its_folder(method, here, made):
    sites = {name: SiteFolder(here / name) for name in NAMES}
    model, _ = Session(method, RUN, 0, made.roster()).conduct(FolderEngine(sites))
    data = read_data(sites["anna"])
    embedded = fedgeom.run(method, [read_data(site) for site in sites.values()])
    assert embedded.model.to_bytes() == model.to_bytes()
    own = embedded.model.for_site(embedded.local["anna"]).predict(data.X)
    lines = [f"{a!r},{b!r},{name}" for (a, b), name in zip(data.X.tolist(), data.y.tolist(), strict=True)]
    (here / "rows.csv").write_text("\n".join(["u,v,answer", *lines]))
    folder = here / "anna" / "results" / RUN.hex()[:16]
    for words in ([], ["--site", "anna"]):
        call("predict", folder, "rows.csv", "--label", "answer", *words, "--out", f"out-{len(words)}.csv")
        found = list(csv.DictReader((here / f"out-{len(words)}.csv").open()))
        assert [row["class"] for row in found] == own.astype(str).tolist()
    shown = call("predict", folder, "rows.csv", "--label", "answer", "--site", "anna")
    assert f"{(own == data.y).mean():.3f} of {len(data)} rows agree" in shown
    assert "no model of a site 'bert'; it has those of anna" in call(
        "predict", folder, "rows.csv", "--site", "bert", code=2
    )

"""Every page of the studio, and what it says when something is wrong."""

from __future__ import annotations

import errno
import os

import pytest

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.federation.record import read_status
from fedgeom.studio import runs
from fedgeom.studio.places import run_names
from tests.report.folders import folder_of
from tests.studio.conftest import TOKEN, browser_in
from tests.studio.test_stewarding import site  # noqa: F401  # a folder in which a job waits
from tests.waiting import until

FORM = {
    "file": "patients.csv",
    "label": "diagnosis",
    "sites_from": "hospital",
    "prepare": "table",
    "holdout": "0.25",
}


def end(client, run):
    until(lambda: "data-live" not in client.get(f"/runs/{run}").text, pause=0.2)
    return client.get(f"/runs/{run}").text


def test_from_a_dropped_table_to_a_report(client, patients, place):
    kept = client.post("/files/patients.csv", content=patients)
    assert kept.text == f"/{TOKEN}/files?file=patients.csv"
    page = client.get("/files?file=patients.csv").text
    assert "160 rows, 5 columns" in page
    assert "<option selected>diagnosis</option>" in page
    assert '<option value="table" selected>' in page
    study = client.post("/studies", data=FORM)
    assert (study.status_code, study.headers["location"]) == (303, f"/{TOKEN}/studies/patients")
    page = client.get("/studies/patients").text
    for said in ("ready", "What would leave each site", "h0", "Run it here"):
        assert said in page
    run = client.post("/studies/patients/run").headers["location"].rpartition("/")[2]
    page = end(client, run)
    assert "finished" in page
    assert client.get("/").text.count(run) >= 1
    report = client.get(f"/runs/{run}/report")
    assert "Can 4 sites tell" in report.text
    assert "script-src 'unsafe-inline'" in report.headers["content-security-policy"]
    side = client.get(f"/compare?run={run}").text
    assert "accuracy" in side
    with client.stream("GET", f"/runs/{run}/live") as live:
        said = "".join(live.iter_text())
    assert "event: progress" in said
    assert said.endswith("event: ended\ndata: finished\n\n")
    assert read_status(place.runs / run).state == "finished"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/files", "no table was chosen"),
        ("/files?file=nothing.csv", "there is no file"),
        ("/files?file=../../etc/passwd", "wanted a name"),
        ("/studies/nothing", "there is no study"),
        ("/runs/nothing", "there is no run"),
        ("/runs/nothing/report", "there is no run"),
        ("/runs/nothing/live", "there is no run"),
        ("/compare", "no run was chosen"),
        ("/site", "no site&#39;s folder"),
        ("/coordinator", "no coordinator&#39;s folder"),
        ("/nowhere", "no such page"),
    ],
)
def test_what_is_wrong_is_a_sentence(client, path, said):
    answer = client.get(path)
    assert 400 <= answer.status_code < 500
    assert said in answer.text
    assert "Traceback" not in answer.text


def test_a_wrong_file_is_a_sentence_and_nothing_is_kept(client, place):
    assert "no table that can be read" in client.post("/files/a.exe", content=b"MZ").text
    client.post("/files/a.h5ad", content=b"not at all")
    assert "a.h5ad" in client.get("/files?file=a.h5ad").text
    answer = client.get("/files?file=a.h5ad")
    assert answer.status_code == 400
    assert place.table_names() == ["a.h5ad"]


def test_a_full_disk_is_a_sentence_and_nothing_is_lost(client, patients, place, monkeypatch):
    client.post("/files/patients.csv", content=patients)
    client.post("/studies", data=FORM)
    before = (place.studies / "patients.toml").read_text()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("fedgeom.studio.pages.write_text", full)
    answer = client.post("/studies/patients", data={"text": "what was typed"})
    assert answer.status_code == 507
    assert "The disk is full" in answer.text
    assert ">what was typed</textarea>" in answer.text
    assert (place.studies / "patients.toml").read_text() == before


def test_a_mistake_of_ours_is_a_sentence_too(client, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError("in a secret place")

    monkeypatch.setattr("fedgeom.studio.pages.run_names", broken)
    answer = client.get("/runs")
    assert answer.status_code == 500
    assert "Something went wrong inside the studio" in answer.text
    assert "secret" not in answer.text


def test_a_study_can_be_edited_and_what_is_wrong_with_it_is_listed(client, patients):
    client.post("/files/patients.csv", content=patients)
    client.post("/studies", data=FORM)
    client.post(
        "/studies/patients",
        data={"text": 'label = "nothing"\r\nfile = "../files/patients.csv"\r\nsites_from = "hospital"\r\n'},
    )
    page = client.get("/studies/patients").text
    assert "not ready" in page
    assert "Run it here" not in page
    assert "Errors" in page
    client.post("/studies/patients", data={"text": "label = <script>"})
    page = client.get("/studies/patients").text
    assert "<script>" not in page.replace("<script defer", "")


def test_five_hundred_runs_come_in_pages_and_can_be_found(client, place):
    for at in range(120):
        folder_of(place.runs / f"run-{at:03}", sites=1, rounds=1)
    page = client.get("/runs").text
    assert "120 runs, page 1 of 3" in page
    assert page.count('name="run"') == 50
    assert client.get("/runs?page=3").text.count('name="run"') == 20
    assert "page 3 of 3" in client.get("/runs?page=99999").text
    assert "page 1 of 3" in client.get("/runs?page=-1").text
    part = client.get("/runs?find=run-11", headers={"hx-request": "true"}).text
    assert part.count('name="run"') == 10
    assert "<html" not in part


def test_a_run_that_fails_in_the_middle_says_why(client, place):
    folder = folder_of(place.runs / "r-1", rounds=1)
    from fedgeom.federation.record import write_status

    write_status(folder, "failed", "2 sites answered, 3 are needed")
    page = client.get("/runs/r-1").text
    assert "2 sites answered, 3 are needed" in page
    assert "Open the report" in page
    assert "data-live" not in page
    assert "2 sites answered" in client.get("/runs/r-1/report").text


def test_the_steward_approves_on_the_page(tmp_path, site):  # noqa: F811
    path, digits = site
    client = browser_in(path, follow=True)
    page = client.get("/site").text
    assert digits in page
    assert "Jobs that wait for you" in page
    page = client.post("/site/approve", data={"hash": digits, "days": "3", "runs": "1"}).text
    assert "0 of 1" in page
    page = client.post("/site/revoke", data={"hash": digits}).text
    assert "revoked" in page
    assert "wanted numbers" in client.post("/site/approve", data={"hash": digits, "days": "x", "runs": "1"}).text


def test_a_coordinator_that_is_not_running_is_said(tmp_path):
    folder = CoordinatorFolder.create(tmp_path / "c", names=[], host="127.0.0.1", port=8123, insecure=True)
    client = browser_in(folder.path)
    page = client.get("/coordinator").text
    assert "not running" in page
    assert "fedgeom coordinator start" in page
    (folder.path / "studies").mkdir()
    (folder.path / "studies" / "s.toml").write_text('method = "moments"\n')
    assert "Submit it to the sites" in client.get("/studies/s").text
    answer = client.post("/studies/s/submit")
    assert answer.status_code == 400
    assert "no coordinator runs in" in answer.text


def test_what_the_studio_started_can_be_stopped(client, place, patients):
    client.post("/files/patients.csv", content=patients)
    client.post("/studies", data=FORM)
    run = client.post("/studies/patients/run").headers["location"].rpartition("/")[2]
    assert client.post(f"/runs/{run}/stop").status_code == 303
    end(client, run)
    assert not runs.is_alive(place, run)


def test_a_form_without_end_is_refused(client):
    assert "more than" in client.post("/studies", content=b"x" * 300_000).text


def test_an_example_is_a_study_in_one_click_and_its_run_ends_with_a_verdict_and_predicts(client, place):
    study = client.post("/examples/hospitals").headers["location"]
    assert study == f"/{TOKEN}/studies/hospitals"
    page = client.get("/studies/hospitals").text
    assert "ready" in page
    assert "questions to each site" in page
    run = client.post("/studies/hospitals/run").headers["location"].rpartition("/")[2]
    page = end(client, run)
    assert "<b>Verdict.</b>" in page
    assert "better than always naming the majority class" in page
    assert page.count(" left it</span>") == 4
    form = {"run": run, "table": "example-hospitals-West.csv", "ignore": "yes"}
    assert run in client.get(f"/predict?run={run}").text
    described = client.post("/studies/hospitals/describe").headers["location"].rpartition("/")[2]
    page = end(client, described)
    assert "This describes the sites' rows" in page.replace("&#39;", "'")
    assert client.get(f"/runs/{described}/description.csv").text.startswith("column,")
    assert client.get(f"/runs/{run}/description.csv").status_code == 400
    offered = client.get("/predict").text  # the newest run describes; it has no classes to give
    assert described not in offered
    assert f"<option selected>{run}</option>" in offered
    assert "North’s own" in offered
    made = client.post("/predict", data=form).headers["location"]
    shown = client.get(made.removeprefix(f"/{TOKEN}")).text
    assert "142 rows predicted" in shown
    file = client.get(made.removeprefix(f"/{TOKEN}") + "/file")
    assert file.text.splitlines()[0] == "row,class,probability"
    assert len(file.text.splitlines()) == 143
    refused = client.post("/predict", data=form | {"unknown": "7"})
    assert refused.status_code == 400
    assert "Traceback" not in refused.text


def test_runs_are_removed_brought_back_and_renamed_on_the_page(client, place):
    folder_of(place.runs / "one", rounds=1)
    gone = client.post("/runs/remove", data={"run": "one"}).headers["location"]
    page = client.get(gone.removeprefix(f"/{TOKEN}")).text
    assert "one moved to the bin" in page
    undo = next(part for part in page.split('"') if part.endswith("/restore"))
    client.post(undo.removeprefix(f"/{TOKEN}"))
    assert run_names(place.runs) == ["one"]
    assert client.post("/runs/one/rename", data={"new": "two"}).headers["location"].endswith("/runs/two?was=one")
    assert "it was one" in client.get("/runs/two?was=one").text
    client.post("/runs/remove", data={"run": "two"})
    assert "The bin holds 1 thing " in client.get("/").text
    client.post("/bin/empty")
    assert place.binned() == 0
    assert client.post("/bin/../restore").status_code in (303, 400, 404)
    assert client.post("/examples/nothing").status_code == 400


def test_runs_side_by_side_are_handed_out_as_a_table(client, place):
    folder_of(place.runs / "one", rounds=1)
    text = client.get("/compare.csv?run=one").text
    assert text.splitlines()[0] == ",one"
    assert "method,fedavg" in text

"""The commands of a deployment, as far as they go without Flower's programs."""

from __future__ import annotations

import csv
import json
import shutil

import pytest
from typer.testing import CliRunner

import fedgeom
from fedgeom.cli import app
from fedgeom.cli.screen import console
from fedgeom.cli.submit import Display
from fedgeom.deploy import coordinator_loop, submit
from fedgeom.deploy.answering import read_data
from fedgeom.deploy.coordinator_folder import CoordinatorFolder, Node, Registered
from fedgeom.deploy.coordinator_process import COORDINATOR_LOCK
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.federation.conversation import Event
from fedgeom.federation.ledger import Entry
from fedgeom.federation.record import RunRecord, read_status, write_status
from fedgeom.federation.session import Session
from fedgeom.storage import locked
from tests.deploy.making import NAMES, make_coordinator, make_sites
from tests.deploy.test_answering import RUN, FolderEngine

runner = CliRunner()


def call(*words, code=0):
    result = runner.invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("FEDGEOM_COORDINATOR", "FEDGEOM_SITE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def made(here):
    coordinator = make_coordinator(here / "c")
    make_sites(here, coordinator)
    return coordinator


def test_from_nothing_to_the_roster(here):
    call("coordinator", "init", "--folder", "c", "--name", "host.example")
    public = call("site", "init", "--name", "charite", "--coordinator", "host.example:8000")
    lines = json.loads((here / "charite" / "charite.pub").read_text())
    assert lines["identity"] in public
    assert "send these lines" in public.lower()
    assert lines["identity"] in call("coordinator", "admit", "charite/charite.pub", "--folder", "c")
    listed = call("coordinator", "list", "--folder", "c")
    assert "charite admitted" in listed
    assert "not running" in listed
    assert "roster.json" in call("coordinator", "remove", "charite", "--folder", "c")
    assert "0 sites admitted" in call("coordinator", "list", "--folder", "c")


def test_init_says_what_is_missing(here):
    assert "no --name was given" in call("coordinator", "init", code=2)
    assert "this machine only" in call("coordinator", "init", "--insecure", "--host", "10.0.0.7", code=2)
    assert "this machine only" in call("site", "init", "--name", "a", "--insecure", code=2)
    assert "HOST:PORT" in call("site", "init", "--name", "a", "--coordinator", "host", code=2)
    assert "cannot be a site's name" in call("site", "init", "--name", "../a", code=2)
    assert list(here.iterdir()) == []
    call("coordinator", "init", "--insecure", "--folder", "c")
    assert CoordinatorFolder(here / "c").config().host == "127.0.0.1"


def test_renewing(made):
    assert "valid until" in call("coordinator", "init", "--renew", "--folder", made.path)
    assert "coordinator init" in call("coordinator", "init", "--renew", "--folder", made.path / "jobs", code=2)


def test_a_new_node_key(here, made):
    identity = made.roster()["anna"].hex()
    before = made.node_keys()["anna"]
    assert identity in call("site", "init", "--name", "anna", "--new-node-key")
    assert "not of 'bert'" in call("site", "init", "--name", "bert", "--folder", "anna", "--new-node-key", code=2)
    call("coordinator", "admit", "anna/anna.pub", "--folder", "c")
    assert made.node_keys()["anna"] != before


def test_preview(here, made):
    (here / "study.toml").write_text("[parameters]\nepsilon = 0.05\n")
    shown = call("site", "preview", "study.toml", "--folder", "anna", "--picture")
    for piece in ("Nothing was sent", "2 phantom sites", "made up", "hulls.encode", "corners", "share"):
        assert piece in shown
    assert (here / "anna" / "preview.png").exists()
    assert "does not exist" in call("site", "preview", "none.toml", "--folder", "anna", code=2)


def test_an_empty_site_ledger(made):
    assert "0 questions, 0 bytes" in call("site", "ledger", "--folder", "anna")


def test_submit_needs_a_coordinator_and_one_thing_to_do(here, made):
    (here / "study.toml").write_text("")
    assert "either a federation file or --resume" in call("submit", code=2)
    assert "either" in call("submit", "study.toml", "--resume", "study-1", code=2)
    assert "coordinator start" in call("submit", "study.toml", "--folder", "c", code=2)
    assert "no job 'study-1'" in call("submit", "--resume", "study-1", "--folder", "c", code=2)


@pytest.fixture
def flower(monkeypatch, made):
    """A coordinator that seems to run, and a Flower that holds a short conversation by itself."""

    def start_run(folder, name):
        record = RunRecord(folder.path / "runs" / name, {"method": "hulls", "sites": {}}, resume=True)
        record.event(Event(0, "join", "anna", "joined"))
        record.event(Event(0, "join", "bert", "lost", "did not come within 60 s"))
        record.event(Event(1, "join.hello", "anna", "asked"))
        record.event(Event(1, "join.hello", "anna", "answered"))
        record.enter(Entry(step=1, site="anna", kind="join.keys", bytes=362, received=9, reveals="public keys"))
        record.metric("seconds", 1.5)
        record.finish(*end)
        return "17"

    end = ["finished", ""]
    monkeypatch.setattr(submit, "start_flower_run", start_run)
    monkeypatch.setattr(submit, "stop_flower_run", lambda folder, number: None)
    monkeypatch.setattr(submit, "flower_status", lambda folder, number: "finished:failed")
    with locked(made.path / COORDINATOR_LOCK, "busy"):
        yield end


def test_submit(here, flower):
    (here / "study.toml").write_text("holdout = 0.5\n")
    shown = call("submit", "study.toml", "--folder", "c")
    for piece in ("not used in a submitted job", "anna: joined", "bert: lost join: did not come", "public keys"):
        assert piece in shown
    assert "runs/study-1/model.safetensors" in shown.replace(" ", "")
    assert "finished already" in call("submit", "--resume", "study-1", "--folder", "c", code=2)


def test_submit_that_fails_says_how_to_go_on(here, flower):
    flower[:] = ["failed", "2 sites answered, 3 are needed"]
    (here / "study.toml").write_text("")
    shown = call("submit", "study.toml", "--folder", "c", code=1)
    for piece in ("failed: 2 sites answered", "coordinator.log", "fedgeom submit --resume study-1 --folder c"):
        assert piece in shown
    flower[:] = ["finished", ""]
    call("submit", "--resume", "c/runs/study-1", "--folder", "c")


def test_interrupting_leaves_a_folder_that_says_so(here, made, flower, monkeypatch):
    def interrupt(*_, **__):
        write_status(made.path / "runs" / "study-1", "running", "")
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "follow", interrupt)
    (here / "study.toml").write_text("")
    shown = call("submit", "study.toml", "--folder", "c", code=130)
    assert "to go on: fedgeom submit --resume study-1" in shown
    assert read_status(made.path / "runs" / "study-1").state == "interrupted"


def test_the_live_table():
    screen = console()
    board = submit.Board(("anna", "bert"))
    display = Display(screen, board)
    display(Event(3, "hulls.encode", "anna", "asked"))
    display(Event(3, "hulls.encode", "bert", "lost", "no [answer] within 9 s"))
    with screen.capture() as shown:
        screen.print(display._table())
    for piece in ("step 3", "answering", "masked hulls", "no [answer] within 9 s"):
        assert piece in shown.get()
    display(None)
    assert board.lines["bert"].state == "expected"


def test_listing_who_is_connected(made, monkeypatch):
    made.save_registered(Registered({"anna": Node("k", "1"), "bert": Node("l", "2")}))
    monkeypatch.setattr(coordinator_loop, "node_states", lambda folder: {"1": "online", "2": "offline"})
    with locked(made.path / COORDINATOR_LOCK, "busy"):
        shown = call("coordinator", "list", "--folder", "c")
    for piece in (
        "anna connected",
        "bert not connected",
        "carl not known to Flower yet",
        "running at 127.0.0.1:8000",
    ):
        assert piece in shown


def test_starting_refuses_what_cannot_work(here, made):
    pytest.importorskip("flwr")
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
    [fedgeom.Hulls(epsilon=0.05), fedgeom.FedAvg(rounds=2), fedgeom.Ditto(rounds=2), fedgeom.Shrunk(rounds=2)],
)
def test_a_site_predicts_with_what_a_run_left_in_its_folder(method, here, made):
    sites = {name: SiteFolder(here / name) for name in NAMES}
    model, _ = Session(method, RUN, 0, made.roster()).hold(FolderEngine(sites))
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

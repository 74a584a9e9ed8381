"""Submitting and following: nothing without a coordinator, states from events, and runs that end in any way."""

from __future__ import annotations

import json

import pytest

import fedgeom
from fedgeom.deploy import submit
from fedgeom.deploy.coordinator import COORDINATOR_LOCK
from fedgeom.deploy.federation_file import build_method, read_federation, terms_of
from fedgeom.deploy.jobs import create_job
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Event
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.policy import hash_terms, job_terms
from fedgeom.federation.record import read_status, write_status
from fedgeom.methods.iterative import MLP
from fedgeom.storage import locked, to_json
from tests.deploy.making import make_coordinator, make_sites


@pytest.fixture
def coordinator(tmp_path):
    made = make_coordinator(tmp_path / "c")
    make_sites(tmp_path, made)
    return made


def federation(tmp_path, text='method = "hulls"\n'):
    file = tmp_path / "My Study.toml"
    file.write_text(text)
    return file


@pytest.fixture
def job(tmp_path, coordinator):
    return create_job(coordinator, federation(tmp_path))


def test_nothing_is_submitted_without_a_coordinator(tmp_path, coordinator, job):
    with pytest.raises(InputError, match="fedgeom coordinator start"):
        submit.new_job(coordinator, federation(tmp_path))
    with pytest.raises(InputError, match="fedgeom coordinator start"):
        submit.job_to_resume(coordinator, job.name)
    with locked(coordinator.path / COORDINATOR_LOCK, "busy"):
        assert submit.job_to_resume(coordinator, str(job.run_folder)) == job
        write_status(job.run_folder, "finished", "")
        with pytest.raises(InputError, match="finished already"):
            submit.job_to_resume(coordinator, job.name)


def test_keys_that_only_a_local_run_uses(tmp_path):
    plain = federation(tmp_path, 'method = "hulls"\n[[sites]]\nname = "anna"\n')
    assert submit.ignored_keys(read_federation(plain)) == []
    one = read_federation(federation(tmp_path, 'file = "all.csv"\nsites_from = "donor"\nshared_columns = true\n'))
    assert submit.ignored_keys(one) == ["file and sites_from", "shared_columns"]
    text = 'holdout = 0.3\nlabel = "y"\n[policy]\nmin_cohort = 3\n[[sites]]\nname = "a"\nfile = "a.csv"\n'
    keys = submit.ignored_keys(read_federation(federation(tmp_path, text)))
    assert keys == ["label", "[policy]", "everything but the name in [[sites]]"]


def test_the_board():
    board = submit.Board(("anna", "bert"))
    assert {line.state for line in board.lines.values()} == {"expected"}
    for event in (
        Event(0, "join", "anna", "joined"),
        Event(1, "join.hello", "anna", "asked"),
        Event(0, "join", "bert", "lost", "did not come"),
        Event(1, "sum.unmask", "", "figures", "joint 50.0%"),
    ):
        board.take(event)
    assert (board.step, board.lines["anna"].state, board.lines["anna"].kind) == (1, "answering", "join.hello")
    assert (board.lines["bert"].state, board.lines["bert"].detail) == ("lost", "did not come")
    assert set(board.lines) == {"anna", "bert"}
    board.clear()
    assert (board.step, board.lines["bert"].state) == (0, "expected")


def line(step, state="answered"):
    event = {"step": step, "kind": "k", "site": "anna", "state": state, "detail": ""}
    return json.dumps(event).encode() + b"\n"


def test_following_events(tmp_path):
    follower = submit.Follower(tmp_path)
    file = tmp_path / "events.jsonl"
    assert follower.new() == (False, [])
    file.write_bytes(line(1) + line(2)[:10])
    assert [e.step for e in follower.new()[1]] == [1]
    file.write_bytes(line(1) + line(2))
    assert [e.step for e in follower.new()[1]] == [2]
    file.write_bytes(line(1))  # a resumed run begins anew
    anew, events = follower.new()
    assert anew
    assert [e.step for e in events] == [1]


@pytest.fixture
def asked(monkeypatch):
    """What the running coordinator is asked for."""
    found = []
    ask_for = submit.ask_for

    def ask(folder, job, what):
        found.append((job, what))
        ask_for(folder, job, what)

    monkeypatch.setattr(submit, "ask_for", ask)
    return found


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def follow(coordinator, job, seen=None):
    clock = Clock()
    take = (lambda event: None) if seen is None else seen.append
    return submit.follow(coordinator, job, take, clock=clock, sleep=clock.sleep)


def test_a_run_to_its_end(coordinator, job, asked):
    submit.start(coordinator, job)
    assert asked == [(job.name, "start")]
    assert read_status(job.run_folder).state == "submitted"
    (job.run_folder / "events.jsonl").write_bytes(line(1, "asked") + line(1))
    write_status(job.run_folder, "finished", "")
    seen = []
    assert follow(coordinator, job, seen).state == "finished"
    assert [event.state for event in seen] == ["asked", "answered"]


def test_a_run_that_nobody_conducts_is_given_up(coordinator, job):
    submit.start(coordinator, job)
    (request,) = (coordinator.path / "requests").glob("*.start")
    request.unlink()  # heeded; and then the process was gone
    with locked(coordinator.path / COORDINATOR_LOCK, "busy"):
        status = follow(coordinator, job)
    assert status.state == "failed"
    assert "nobody conducts the run any more" in status.detail
    assert read_status(job.run_folder).state == "failed"


def test_the_coordinator_stops(coordinator, job):
    submit.start(coordinator, job)
    assert follow(coordinator, job).detail == "the coordinator stopped"


def test_resuming_begins_the_events_anew(coordinator, job, asked):
    submit.start(coordinator, job)
    (job.run_folder / "events.jsonl").write_bytes(line(5))
    submit.start(coordinator, job)
    assert asked == [(job.name, "start")] * 2
    assert not (job.run_folder / "events.jsonl").exists()


def test_resuming_joins_a_run_that_goes_on(coordinator, job, asked):
    submit.start(coordinator, job)
    with locked(job.run_folder / "lock", "busy"):
        submit.start(coordinator, job)
    assert asked == [(job.name, "start")]


def test_stopping(coordinator, job, asked):
    submit.start(coordinator, job)
    submit.stop(coordinator, job)
    assert asked[1:] == [(job.name, "stop")]
    assert read_status(job.run_folder).state == "interrupted"
    write_status(job.run_folder, "finished", "")
    submit.stop(coordinator, job)  # it ended by itself meanwhile
    assert read_status(job.run_folder).state == "finished"


REHEARSED = {
    "plain": fedgeom.Moments(),
    "settings": fedgeom.Hulls(epsilon=0.05, names="own", holdout=0.25),
    "prepared": fedgeom.Ridge(features="linear", prepare="table", holdout=Holdout(0.3, grouped=True)),
    "nested": fedgeom.FedAvg(n_rounds=1, network=MLP(hidden=8), optimizer={"name": "sgd", "momentum": 0.9}),
}


@pytest.mark.parametrize("name", REHEARSED)
def test_a_rehearsal_becomes_the_federation_file_with_the_same_terms(tmp_path, name):
    method = REHEARSED[name]
    config = {
        "method": method.name,
        "parameters": method.terms(),
        "seed": 7,
        "sites": {"a": {}, "b": {}},
    }
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_bytes(to_json(config))
    with pytest.raises(InputError, match="wanted a finished one"):
        submit.rehearsed_file(tmp_path / "run")
    write_status(tmp_path / "run", "finished", "")
    file = tmp_path / "study.toml"
    file.write_text(submit.rehearsed_file(tmp_path / "run"))
    read = read_federation(file)
    assert (read.seed, read.sites) == (7, [])
    assert build_method(file, read).terms() == method.terms()
    assert hash_terms(terms_of(file, read, ["a", "b"])) == hash_terms(
        job_terms(method.name, method.terms(), 7, ["a", "b"])
    )


def test_what_is_no_rehearsal_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        submit.rehearsed_file(tmp_path)

"""Conducting a job: once at a time, and resumable: whoever was lost or left out is asked again, and nobody else.

A whole job over real processes is in test_deployment.py.
"""

from __future__ import annotations

import pytest

from fedgeom.crypto.keys import Identity
from fedgeom.deploy import conductor
from fedgeom.deploy.jobs import create_job
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.coordinator import Event, Lost
from fedgeom.federation.record import read_folder
from fedgeom.federation.session import Session
from fedgeom.storage import locked, write_file
from tests.deploy.test_answering import METHOD, RUN, FolderEngine


def conduct(engine, roster, path, told=None):
    """Hold the conversation as the coordinator does; return the model, and who was left out for their answer.

    ``told`` gets what those who watch are told of lost sites.
    """

    def watch(event):
        if told is not None and event.state == "lost":
            told.append((event.step, event.site, event.detail))

    model, sites = Session(METHOD, RUN, 0, roster, None, path, watch).conduct(engine)
    return model, sites.left_out


def test_a_wrong_key_that_was_set_right(sites, coordinator, tmp_path):
    """The wrong key's answer is in the transcript, and must not be taken from there again."""
    path, carl, told = tmp_path / "t.bin", sites["carl"], []
    right = carl.identity_file.read_bytes()
    write_file(carl.identity_file, Identity.generate().secret, private=True)
    with pytest.raises(TooFewSitesError):
        conduct(FolderEngine(sites), coordinator.roster(), path, told)
    ((step, why),) = [(step, why) for step, name, why in told if name == "carl"]  # the others refuse after that
    assert step == 1
    assert "another key" in why
    write_file(carl.identity_file, right, private=True)
    told.clear()
    model, left_out = conduct(FolderEngine(sites), coordinator.roster(), path, told)
    assert (left_out, told) == (set(), [])
    assert model.to_bytes() == conduct(FolderEngine(sites), coordinator.roster(), path)[0].to_bytes()


@pytest.mark.parametrize("step", range(2, 6))
def test_refusals_that_follow_from_a_loss_are_not_what_is_gone_back_to(sites, coordinator, tmp_path, step):
    """One of three is away; the other two refuse to go on, which are answers too. Who was away is named."""
    path, asked = tmp_path / "t.bin", []

    class Away(FolderEngine):
        def deliver(self, requests):
            asked.append(set(requests))
            here = dict(requests)
            if len(asked) >= step:
                here.pop("bert", None)
            yield from super().deliver(here)
            if "bert" in requests and "bert" not in here:
                yield "bert", Lost("it was killed")

    with pytest.raises(TooFewSitesError, match=r"bert.*: it was killed"):
        conduct(Away(sites), coordinator.roster(), path)
    model, left_out = conduct(FolderEngine(sites), coordinator.roster(), path)
    assert left_out == set()
    assert model.tensors()


@pytest.fixture
def job(sites, coordinator, tmp_path):
    (tmp_path / "study.toml").write_text('method = "hulls"\nmin_sites = 2\nwait = 0\n')
    return create_job(coordinator, tmp_path / "study.toml")


class EmptyLink:
    """A coordinator to whom nobody is connected."""

    def look(self, names):
        return {}


def test_a_job_to_which_nobody_came_is_written_down_as_failed(coordinator, job):
    with pytest.raises(TooFewSitesError, match="0 of the 2 sites needed"):
        conductor.conduct(coordinator, job, conductor.reach_by_nats(EmptyLink()))
    record = read_folder(job.run_folder)
    assert record["status"]["state"] == "failed"
    assert "missing: anna, bert, carl" in record["status"]["detail"]
    assert (job.run_folder / "events.jsonl").read_text().count('"lost"') == 3


def test_a_run_is_conducted_by_one_process_at_a_time(coordinator, job):
    job.run_folder.mkdir()
    with locked(job.run_folder / "lock", "busy"), pytest.raises(InputError, match="by another process"):
        conductor.conduct(coordinator, job, conductor.reach_by_nats(EmptyLink()))
    assert not (job.run_folder / "status.json").exists()


class Clock:
    """A clock that only moves when somebody sleeps."""

    now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def gathered(times, **options):
    """Wait for three sites, each of which comes at its time; return who came, what was told, and how long it took."""
    clock, events = Clock(), []
    given = {"wait": 60.0, "min_sites": 2, **options}
    found = conductor.gather(
        lambda: {name: name.upper() for name, when in times.items() if when <= clock.now},
        ("anna", "bert", "carl"),
        watch=events.append,
        clock=clock,
        sleep=clock.sleep,
        **given,
    )
    return dict(found), events, clock.now


def test_waiting_ends_when_all_are_there():
    found, events, took = gathered({"anna": 0, "bert": 10, "carl": 20, "dora": 0})
    assert found == {"anna": "ANNA", "bert": "BERT", "carl": "CARL"}
    assert 20 <= took < 21
    assert [(one.site, one.state) for one in events] == [(name, "joined") for name in ("anna", "bert", "carl")]


def test_waiting_ends_with_its_time_when_enough_are_there():
    found, events, took = gathered({"anna": 0, "bert": 10, "carl": 100})
    assert set(found) == {"anna", "bert"}
    assert 60 <= took < 61
    assert events[-1] == Event(0, "join", "carl", "lost", "did not come within 60 s")


def test_too_few_sites_are_named():
    with pytest.raises(TooFewSitesError, match="1 of the 2 sites needed came within 60 s; missing: bert, carl"):
        gathered({"anna": 0, "dora": 0})


def test_without_waiting_one_look_decides():
    found, _, took = gathered({"anna": 0, "carl": 0}, wait=0.0)
    assert (set(found), took) == ({"anna", "carl"}, 0.0)

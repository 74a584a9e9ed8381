"""Conducting a job: once at a time, and resumable: whoever was lost or left out is asked again, and nobody else.

A whole job over Flower's messages is in test_every_method.py.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fedgeom.crypto.keys import Identity
from fedgeom.deploy import conducting
from fedgeom.deploy.conducting import LeftOut
from fedgeom.deploy.jobs import create_job
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.conversation import Event, Lost, Sites
from fedgeom.federation.record import read_folder
from fedgeom.federation.transcript import Transcript
from fedgeom.storage import locked, write_file
from tests.deploy.making import make_coordinator, make_sites
from tests.deploy.test_answering import METHOD, RUN, FolderEngine


@pytest.fixture
def coordinator(tmp_path):
    return make_coordinator(tmp_path / "c")


@pytest.fixture
def sites(tmp_path, coordinator):
    return make_sites(tmp_path, coordinator)


def conduct(engine, roster, path):
    """Hold the conversation as the coordinator does; return the model and what was told of lost sites."""
    transcript, told = Transcript(engine, path), []
    talk = Sites(transcript, run=RUN, method="hulls", roster=roster)
    left_out = LeftOut(talk, told.append)
    talk.listeners.append(left_out)
    try:
        return METHOD.conduct(talk), told
    except TooFewSitesError:
        transcript.forgive(left_out.names)
        raise


def test_a_wrong_key_that_was_set_right(sites, coordinator, tmp_path):
    """The wrong key's answer is in the transcript, and must not be taken from there again."""
    path, carl = tmp_path / "t.bin", sites["carl"]
    right = carl.identity()
    write_file(carl.identity_file, Identity.generate().secret, private=True)
    with pytest.raises(TooFewSitesError):
        conduct(FolderEngine(sites), coordinator.roster(), path)
    write_file(carl.identity_file, right.secret, private=True)
    model, told = conduct(FolderEngine(sites), coordinator.roster(), path)
    assert told == []
    assert model.to_bytes() == conduct(FolderEngine(sites), coordinator.roster(), path)[0].to_bytes()


@pytest.mark.parametrize("step", range(2, 6))
def test_refusals_that_follow_from_a_loss_are_not_what_is_gone_back_to(sites, coordinator, tmp_path, step):
    """One of three is away; the other two refuse to go on, which are answers too."""
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

    with pytest.raises(TooFewSitesError):
        conduct(Away(sites), coordinator.roster(), path)
    model, told = conduct(FolderEngine(sites), coordinator.roster(), path)
    assert told == []
    assert model.tensors()


@pytest.fixture
def job(sites, coordinator, tmp_path):
    (tmp_path / "study.toml").write_text("least = 2\nwait = 0\n")
    return create_job(coordinator, tmp_path / "study.toml")


class EmptyGrid:
    """A coordinator to whom nobody is connected."""

    def get_nodes(self):
        return []


def test_a_job_to_which_nobody_came_is_written_down_as_failed(coordinator, job):
    with pytest.raises(TooFewSitesError, match="0 of the 2 sites needed"):
        conducting.conduct(coordinator, job, EmptyGrid())
    record = read_folder(job.run_folder)
    assert record["status"]["state"] == "failed"
    assert "missing: anna, bert, carl" in record["status"]["detail"]
    assert (job.run_folder / "events.jsonl").read_text().count('"lost"') == 3


def test_a_run_is_conducted_by_one_process_at_a_time(coordinator, job):
    job.run_folder.mkdir()
    with locked(job.run_folder / "lock", "busy"), pytest.raises(InputError, match="by another process"):
        conducting.conduct(coordinator, job, EmptyGrid())
    assert not (job.run_folder / "status.json").exists()


def test_who_answered_of_no_use_is_told_as_lost_once_and_who_was_lost_is_not_told_again():
    told = []
    talk = SimpleNamespace(lost={})
    left_out = LeftOut(talk, told.append)
    talk.lost["bert"] = "did not answer"
    left_out(Event(1, "k", "bert", "lost", "did not answer"))
    talk.lost["carl"] = "another key"
    left_out(Event(1, "k", "anna", "answered"))
    left_out(Event(2, "k", "anna", "asked"))
    assert told == [Event(1, "k", "carl", "lost", "another key")]
    assert left_out.names == {"carl"}

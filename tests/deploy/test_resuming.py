"""Resuming a run that ended for want of sites: whoever was lost or left out is asked again, and nobody else."""

from __future__ import annotations

import pytest

from fedgeom.crypto.keys import Identity
from fedgeom.deploy.coordinator_app import LeftOut
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.conversation import Lost, Sites
from fedgeom.federation.transcript import Transcript
from fedgeom.storage import write_file
from tests.deploy.making import make_coordinator, make_sites
from tests.deploy.test_site_app import METHOD, RUN, FolderEngine


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

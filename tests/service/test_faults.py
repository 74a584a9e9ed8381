"""Killing real processes; the whole matrix is made by benchmarks/faults.py and stands in docs/faults.md."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.service.jobs import Job
from tests.service.deployment import Federation
from tests.service.test_deployment import METHODS, settings

pytestmark = [pytest.mark.deployment, pytest.mark.slow]


THREE = ("anna", "bert", "carl")
"""As few sites as their policy allows."""


def reached(federation: Federation, job: Job, step: int) -> bool:
    """Wait until bert has answered this question."""
    return federation.until(
        lambda: any(
            (e["step"], e["site"], e["state"]) == (step, "bert", "answered") for e in federation.events(job)
        ),
        120,
        pause=0.05,
    )


def test_a_killed_coordinator_and_a_killed_site_end_in_the_undisturbed_model(federation: Federation) -> None:
    """Three sites, whose policy asks for three.

    First the coordinator dies and the run is resumed; then a site dies, which ends the run with the site's name; it
    is started again, and the run is resumed once more.
    """
    method = METHODS["hulls"]
    job = federation.submit(settings(method, only=THREE, times="wait = 10\ndeadline = 30\n"), name="faults")
    assert reached(federation, job, 2)
    assert federation.kill_conductor(job)
    federation.resume(job)
    assert reached(federation, job, 3), federation.status(job)
    federation.kill("bert")
    status = federation.wait(job, 150)
    assert status["state"] == "failed"
    assert "bert" in status["detail"]
    federation.start_site("bert")
    assert federation.until(lambda: federation.connected("bert"), 60), federation.said("bert")
    federation.resume(job)
    status = federation.wait(job, 150)
    assert status["state"] == "finished", status
    expected = fedgeom.run(method, [federation.data[name] for name in THREE]).model.to_bytes()
    assert (job.run_folder / "model.safetensors").read_bytes() == expected


def test_training_goes_on_after_any_round_as_if_nothing_had_happened(federation: Federation) -> None:
    """Steps 1 to 8 join, agree on names and scale and begin; a secure round takes three more."""
    method = METHODS["scaffold"]
    job = federation.submit(settings(method, only=THREE, times="wait = 10\ndeadline = 30\n"), name="rounds")
    for step in (11, 14):
        assert reached(federation, job, step), federation.status(job)
        if federation.kill_conductor(job):
            federation.resume(job)
    status = federation.wait(job, 150)
    assert status["state"] == "finished", status
    expected = fedgeom.run(method, [federation.data[name] for name in THREE]).model.to_bytes()
    assert (job.run_folder / "model.safetensors").read_bytes() == expected
    assert len(list((job.run_folder / "rounds").iterdir())) == 2

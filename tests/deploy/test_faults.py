"""Killing real processes; the whole matrix is made by benchmarks/faults.py and stands in docs/faults.md."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import fedgeom
from fedgeom.deploy.jobs import Job
from fedgeom.federation.method import Method
from tests.deploy.deployment import Federation
from tests.deploy.test_deployment import METHODS, settings

pytestmark = [pytest.mark.deployment, pytest.mark.full]

TIMES = "wait = 20\ndeadline = 600\n"
"""A killed site is given up ``wait`` seconds after it is gone; who is only slow is not."""
HULLS, TRAINING = METHODS["hulls"], fedgeom.Scaffold(n_rounds=2, epochs=1)
WITH_BERT, WITHOUT_BERT = ("anna", "bert", "carl"), ("anna", "carl", "dora")
"""As few sites as their policy allows."""


def submit(federation: Federation, method: Method, sites: tuple[str, ...]) -> Job:
    return federation.submit(settings(method, only=sites, times=TIMES), name=f"faults-{method.name}")


def reached(federation: Federation, job: Job, step: int) -> None:
    """Wait until anna has answered this question."""

    def answered() -> bool:
        return any(
            (e["step"], e["site"], e["state"]) == (step, "anna", "answered") for e in federation.events(job)
        )

    federation.until(lambda: answered() or federation.over(job), pause=0.05)
    assert answered(), (federation.status(job), federation.events(job)[-5:])


def finished(federation: Federation, job: Job, method: Method, sites: tuple[str, ...]) -> None:
    """Wait until the run is over, and compare its model with the undisturbed one."""
    status = federation.wait(job)
    assert status["state"] == "finished", (status, federation.events(job)[-5:])
    expected = fedgeom.run(method, [federation.data[name] for name in sites]).model.to_bytes()
    assert (job.run_folder / "model.safetensors").read_bytes() == expected


def lose_the_coordinator_then_a_site(federation: Federation) -> Job:
    """Kill the coordinator and resume; kill a site, which ends the run; start it again and resume once more.

    Until it is killed, the site works on its fourth question.
    """
    federation.hold("bert", "hulls.extent")
    job = submit(federation, HULLS, WITH_BERT)
    reached(federation, job, 2)
    assert federation.kill_conductor(job)
    federation.resume(job)
    reached(federation, job, 3)
    federation.kill("bert")
    status = federation.wait(job)
    assert status["state"] == "failed", (status, federation.events(job)[-5:])
    assert "bert" in status["detail"]
    federation.release("bert")
    federation.start_site("bert")
    assert federation.until(lambda: federation.connected("bert")), federation.said("bert")
    federation.resume(job)
    finished(federation, job, HULLS, WITH_BERT)
    return job


def lose_the_coordinator_after_each_round(federation: Federation) -> Job:
    """Steps 1 to 8 join, agree on names and scale and begin; a secure round takes three more."""
    job = submit(federation, TRAINING, WITHOUT_BERT)
    for step in (11, 14):
        reached(federation, job, step)
        if federation.kill_conductor(job) and federation.status(job)["state"] != "finished":
            federation.resume(job)
    finished(federation, job, TRAINING, WITHOUT_BERT)
    return job


@pytest.fixture(scope="module")
def disturbed(federation: Federation) -> Iterator[dict[str, Future[Job]]]:
    """Disturb two runs at the same time, which takes half as long."""
    with ThreadPoolExecutor(2) as both:
        yield {
            "a site": both.submit(lose_the_coordinator_then_a_site, federation),
            "rounds": both.submit(lose_the_coordinator_after_each_round, federation),
        }


def test_a_killed_coordinator_and_a_killed_site_end_in_the_undisturbed_model(
    federation: Federation, disturbed: dict[str, Future[Job]]
) -> None:
    job = disturbed["a site"].result()
    assert federation.status(job)["state"] == "finished"


def test_training_goes_on_after_any_round_as_if_nothing_had_happened(disturbed: dict[str, Future[Job]]) -> None:
    job = disturbed["rounds"].result()
    assert len(list((job.run_folder / "rounds").iterdir())) == 2

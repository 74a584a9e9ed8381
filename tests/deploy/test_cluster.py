"""A cluster of three servers, one of which is killed in the middle of a run: the run goes on to the usual model."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedgeom
from tests.deploy.deployment import Federation, parts
from tests.deploy.making import need_nats
from tests.deploy.test_deployment import settings

pytestmark = [pytest.mark.deployment, pytest.mark.full]

METHOD = fedgeom.FedAvg(n_rounds=6, epochs=1)


def test_a_run_survives_the_death_of_the_server_that_carries_it(tmp_path: Path) -> None:
    need_nats()
    with Federation(tmp_path, parts(3, rows=60), clustered=True) as there:
        there.start_all()
        job = there.submit(settings(METHOD, seed=3))
        for number in (0, 1):  # the coordinator connects to the first, and then to the next
            asked = 4 + 6 * number
            assert there.until(lambda asked=asked: len(there.events(job)) > 3 * asked, pause=0.01)  # type: ignore[misc]
            assert not there.over(job)
            there.cluster.kill(number)
        status = there.wait(job)
        assert status["state"] == "finished", (status, there.events(job)[-5:], there.log("coordinator")[-3000:])
        assert not any(event["state"] == "lost" for event in there.events(job))
        run = fedgeom.run(METHOD, list(there.data.values()), seed=3)
        assert (job.run_folder / "model.safetensors").read_bytes() == run.model.to_bytes()

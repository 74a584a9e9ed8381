"""A cluster of three servers, one of which is killed in the middle of a run: the run goes on to the usual model."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedgeom
from tests.deploy.deployment import Federation, parts
from tests.deploy.making import need_nats
from tests.deploy.offline import write_offline
from tests.deploy.test_deployment import settings

pytestmark = [pytest.mark.deployment, pytest.mark.full]

METHOD = fedgeom.FedAvg(n_rounds=6, epochs=1)
HELD = ("join.share", "sum.unmask")
"""The questions at which a server is killed."""


def test_a_run_survives_the_death_of_the_server_that_carries_it(tmp_path: Path) -> None:
    need_nats()
    offline = write_offline(tmp_path / "offline", tmp_path / "attempts")
    with Federation(tmp_path, parts(3, rows=60), clustered=True, environment=offline) as there:
        there.start_all()
        there.hold("anna", HELD[0])
        job = there.submit(settings(METHOD, seed=3))
        for number, kind in enumerate(HELD):  # the coordinator connects to the first, and then to the next

            def asked(kind: str = kind) -> bool:
                return any((one["kind"], one["site"]) == (kind, "anna") for one in there.events(job))

            assert there.until(asked), (there.status(job), there.events(job)[-5:])
            there.cluster.kill(number)
            there.hold("anna", HELD[1] if number == 0 else "none")
        status = there.wait(job)
        assert status["state"] == "finished", (status, there.events(job)[-5:], there.log("coordinator")[-3000:])
        assert not any(event["state"] == "lost" for event in there.events(job))
        run = fedgeom.run(METHOD, list(there.data.values()), seed=3)
        assert (job.run_folder / "model.safetensors").read_bytes() == run.model.to_bytes()

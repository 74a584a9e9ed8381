"""`examples/flower-app` by `flwr run`, on Flower's own programs as they are: the embedded engine's model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

import fedgeom
from fedgeom.deploy.journal import Journal
from tests.deploy.deployment import Federation, parts
from tests.deploy.making import need_nats, parameters_of
from tests.engines.flower.federation import FlowerFederation

pytestmark = [pytest.mark.deployment, pytest.mark.full]

METHOD = fedgeom.Moments()


def test_a_run_over_three_nodes_gives_the_same_model(tmp_path: Path) -> None:
    need_nats()
    settings = f'method = "moments"\nseed = 3\nwait = 600\ndeadline = 900\n{parameters_of(METHOD)}\n'
    with Federation(tmp_path, parts(3, rows=60)) as there, FlowerFederation(there) as flower:
        job = flower.run(settings)
        status = there.wait(job)
        assert status["state"] == "finished", (status, there.events(job)[-5:], flower.log()[-5000:])
        run = fedgeom.run(METHOD, list(there.data.values()), seed=3)
        assert (job.run_folder / "model.safetensors").read_bytes() == run.model.to_bytes()
        assert json.loads((job.run_folder / "config.json").read_text(encoding="utf-8"))["engine"] == "flower"
        for site in there.sites.values():
            answered = [entry.answer for entry in Journal(site.path).entries() if entry.run == job.run.hex()]
            assert len(answered) >= 5
            assert (site.path / "results" / job.run.hex()[:16] / "model.safetensors").is_file()

"""Every method over Flower's own messages and contexts, site folder by site folder, against the embedded engine.

Nothing listens on a port here: what real processes add is in test_deployment.py. A question goes through Flower's
encoding to the ClientApp that sites run, and each finds only what its folder and the encoded context hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tiers import tiered

pytest.importorskip("flwr", reason="Flower is not installed")

from cryptography.hazmat.primitives import serialization

import fedgeom
from fedgeom.deploy.answers import read_data
from fedgeom.deploy.conductor import conduct, reach_by_flower
from fedgeom.deploy.jobs import create_job
from fedgeom.deploy.programs import client_app
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower.engine import FlowerEngine
from fedgeom.engines.flower.loopback import LoopbackGrid
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import read_folder
from fedgeom.federation.session import Session
from fedgeom.methods.catalogue import METHODS
from tests.deploy.making import make_coordinator, make_sites, small

RUN, SEED = bytes(range(32)), 5


def grid_of(folders: Mapping[int, SiteFolder]) -> LoopbackGrid:
    """Return what carries messages, as Flower encodes them, to ClientApps that know nothing but folder and context."""
    places = {node: str(folder.path) for node, folder in folders.items()}
    return LoopbackGrid(client_app, places, {node: _public_key(folder) for node, folder in folders.items()})


def _public_key(folder: SiteFolder) -> bytes:
    key = serialization.load_ssh_private_key(folder.node_key.read_bytes(), None).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def inside_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's messages can be made inside its tasks only."""
    from flwr.supercore.task_identity import TaskIdentity

    for part in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, part, 1)


@pytest.mark.usefixtures("inside_a_task")
@pytest.mark.parametrize("insecure", [False, True])
def test_a_job_is_conducted_to_its_end_over_the_nodes_that_prove_who_they_are(
    tmp_path: Path, insecure: bool
) -> None:
    """By their keys, or, where there is no TLS, by what they sign; a stranger's node is passed over."""
    coordinator = make_coordinator(tmp_path / "coordinator", insecure=insecure)
    folders = make_sites(tmp_path, coordinator, insecure=insecure)
    data = [read_data(folder) for folder in folders.values()]
    stranger = SiteFolder.create(tmp_path / "stranger", "stranger", "127.0.0.1:8000", insecure=insecure)
    grid = grid_of(dict(enumerate([stranger, *folders.values()], 1)))
    text = 'method = "hulls"\nseed = 5\nwait = 0\nholdout = 0.25\n[parameters]\nepsilon = 0.05\n'
    (tmp_path / "study.toml").write_text(text)
    job = create_job(coordinator, tmp_path / "study.toml")
    conduct(coordinator, job, reach_by_flower(grid))
    record = read_folder(job.run_folder)
    assert record["status"]["state"] == "finished"
    assert {entry.site for entry in record["ledger"]} == set(folders)
    run = fedgeom.run(fedgeom.Hulls(epsilon=0.05), data, seed=5, holdout=0.25)
    assert (job.run_folder / "model.safetensors").read_bytes() == run.model.to_bytes()
    # The coordinator has the figures of all together and of nobody alone; each site has its own.
    told = read_evaluation(job.run_folder)
    assert told is not None
    assert told.by_site == []
    assert "pooled" not in told
    assert [told[name] for name in ("majority", "local", "own")] == [
        run.evaluation[name] for name in ("majority", "local", "own")
    ]
    for name, folder in folders.items():
        (own,) = (folder.path / "results").glob("*/evaluation.json")
        found = read_evaluation(own.parent)
        assert found is not None
        assert (found.rows, found.sites) == (len(run.test[list(folders).index(name)]), 1)
        assert not list(job.run_folder.rglob(f"{name}*"))


@pytest.mark.usefixtures("inside_a_task")
@pytest.mark.parametrize("name", tiered(METHODS, "hulls", "ridge", "fedavg"))
def test_the_same_seed_gives_what_the_embedded_engine_gives_byte_for_byte(name: str, tmp_path: Path) -> None:
    """The model, what each site has, and with rows kept aside the figures of all together."""
    method, coordinator = replace(small(name), holdout=0.25), make_coordinator(tmp_path / "coordinator")
    # The others run at sites as strict as their template, where a regression wants more rows than there are here.
    loose = Policy() if method.shows_one_site() or name == "regression" else None
    folders = make_sites(tmp_path, coordinator, policy=loose)
    nodes = {site: number for number, site in enumerate(folders, 1)}
    grid = grid_of({nodes[site]: folder for site, folder in folders.items()})
    engine = FlowerEngine(grid, nodes, deadline=600.0, poll=0.0)
    carried, conversation = Session(method, RUN, SEED, coordinator.roster()).conduct(engine)
    embedded = fedgeom.run(
        method, [read_data(folder) for folder in folders.values()], seed=SEED, record=tmp_path / "embedded"
    )
    assert carried.to_bytes() == embedded.model.to_bytes()
    assert conversation.evaluation.models["own"].confusion.tolist() == embedded.evaluation.confusion
    for site, folder in folders.items():
        kept = folder.path / "results" / RUN.hex()[:16]
        assert not (kept / "error.txt").exists()
        for name in (f"{site}.json", f"{site}.safetensors"):
            expected = (tmp_path / "embedded" / "sites" / name).read_bytes()
            assert (kept / "sites" / name).read_bytes() == expected
        assert (kept / "model.safetensors").read_bytes() == expected
        own = embedded.model.for_site(embedded.local[site])
        rows = read_data(folder).X
        np.testing.assert_array_equal(fedgeom.load_model(kept).predict(rows), own.predict(rows))

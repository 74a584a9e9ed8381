"""Every method over a real NATS server with TLS, site folder by site folder, against the embedded engine.

What real processes add is in test_deployment.py: here sites answer in threads, each from what its folder holds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.deploy.making import make_coordinator, make_sites, small
from tests.tiers import tiered

pytest.importorskip("nats", reason="NATS is not installed")
pytest.importorskip("nkeys", reason="NATS is not installed")

import fedgeom
from fedgeom.deploy.answers import answer, read_data
from fedgeom.deploy.conductor import conduct, reach_by_nats
from fedgeom.deploy.jobs import create_job
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.nats.engine import NatsEngine, NatsLink
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.policy import Policy
from fedgeom.federation.record import read_folder
from fedgeom.federation.session import Session
from fedgeom.methods.catalogue import METHODS
from tests.engines.nats.carrying import Server, nats_engine
from tests.waiting import HANG_SECONDS, until

RUN, SEED = bytes(range(32)), 5


@contextmanager
def carried(root: Path, folders: Mapping[str, SiteFolder]) -> Iterator[tuple[NatsEngine, Server]]:
    """Run a server and the sites in these folders; yield the engine and its server."""
    turns = threading.Lock()  # in one process, what a site has built is for one answer at a time

    def answer_in_turn(name: str, request: bytes) -> bytes:
        with turns:
            return answer(folders[name], request)

    where = root / "server"
    where.mkdir()
    with nats_engine(where, list(folders), answer_in_turn, deadline=HANG_SECONDS, grace=HANG_SECONDS) as made:
        yield made


def test_a_job_is_conducted_to_its_end_and_its_record_shows_no_single_site(tmp_path: Path) -> None:
    coordinator = make_coordinator(tmp_path / "coordinator")
    folders = make_sites(tmp_path, coordinator)
    data = [read_data(folder) for folder in folders.values()]
    text = 'method = "hulls"\nseed = 5\nwait = 0\nholdout = 0.25\n[parameters]\nepsilon = 0.05\n'
    (tmp_path / "study.toml").write_text(text)
    job = create_job(coordinator, tmp_path / "study.toml")
    with carried(tmp_path, folders) as (_, server), NatsLink(server.endpoint("coordinator")) as link:
        until(lambda: len(link.look(list(folders))) == len(folders))
        conduct(coordinator, job, reach_by_nats(link))
    record = read_folder(job.run_folder)
    assert record["status"]["state"] == "finished"
    assert {entry.site for entry in record["ledger"]} == set(folders)
    run = fedgeom.run(
        fedgeom.Hulls(epsilon=0.05), data, seed=5, holdout=0.25, policy=folders["anna"].config().policy
    )
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


@pytest.mark.parametrize("name", tiered(METHODS, "hulls", "ridge", "fedavg"))
def test_the_same_seed_gives_what_the_embedded_engine_gives_byte_for_byte(name: str, tmp_path: Path) -> None:
    """The model, what each site has, and with rows kept aside the figures of all together."""
    method, coordinator = replace(small(name), holdout=0.25), make_coordinator(tmp_path / "coordinator")
    # The others run at sites as strict as their template, where a regression wants more rows than there are here.
    loose = Policy() if method.shows_one_site() or name == "regression" else None
    folders = make_sites(tmp_path, coordinator, policy=loose)
    with carried(tmp_path, folders) as (engine, _):
        model, conversation = Session(method, RUN, SEED, coordinator.roster()).conduct(engine)
    tables = [read_data(folder) for folder in folders.values()]
    rules = folders["anna"].config().policy
    embedded = fedgeom.run(method, tables, seed=SEED, policy=rules, record=tmp_path / "embedded")
    assert model.to_bytes() == embedded.model.to_bytes()
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

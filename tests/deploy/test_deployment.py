"""A coordinator and sites as real processes on loopback, with TLS and node keys, against the embedded engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.sites import SiteData
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.jobs import Job
from fedgeom.deploy.journal import Journal
from fedgeom.deploy.site import check_certificate, check_site
from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.method import Method
from fedgeom.methods.iterative import MLP
from tests.deploy.conftest import GOOD
from tests.deploy.deployment import Federation
from tests.deploy.making import parameters_of
from tests.deploy.offline import attempts_in, write_offline
from tests.tiers import FULL

pytestmark = pytest.mark.deployment

EPSILON, SEED = 0.05, 3
TIMES = "wait = 300\ndeadline = 600\n"
"""Longer than anything takes, also on a busy machine: nobody is lost here for being slow."""

METHODS: dict[str, Method] = {
    "hulls": fedgeom.Hulls(epsilon=EPSILON),
    "moments": fedgeom.Moments(),
    "xclp": fedgeom.XCLP(hash_bits=256, hidden_projection=False),
    "xclp-training": fedgeom.XCLPTraining(
        n_rounds=2, warmup_rounds=1, epochs=1, labels={"name": "xclp", "n_anchors": 6, "steps": 1}
    ),
    "fedavg": fedgeom.FedAvg(n_rounds=2, epochs=1, holdout=0.25),
    "hyperfed": fedgeom.HyperFed(n_rounds=1, epochs=1, network=MLP(hidden=8, features=8, embedding_dim=4)),
}
"""The methods that run across the real processes, all at the same time (test_every_method.py has all methods)."""
NAMES = ["hulls", *(pytest.param(name, marks=pytest.mark.full) for name in METHODS if name != "hulls")]
SPOILT = ("moments", "dora")
"""In which run which site cannot write its result down."""


def settings(method: Method, *, only: Sequence[str] = (), seed: int = 0, times: str = TIMES) -> str:
    """Return the federation file that asks for a method as it is."""
    tested = f"holdout = {method.holdout.share}" if isinstance(method.holdout, Holdout) else ""
    lines = [f'method = "{method.name}"', f"seed = {seed}", times, tested, parameters_of(method)]
    return "\n".join([*lines, *(f'[[sites]]\nname = "{name}"' for name in only), ""])


def good(federation: Federation) -> list[SiteData]:
    return [federation.data[name] for name in GOOD]


@pytest.fixture(scope="module")
def jobs(federation: Federation) -> dict[str, Job]:
    """Submit all methods, in the first tier `Hulls` alone: over everybody who is there, the others over the good sites.

    At one site, what it has after one of them cannot be written down.
    """

    def prepare(job: Job) -> None:
        if job.name.startswith(SPOILT[0]):
            kept = results(federation, SPOILT[1], job)
            kept.mkdir(parents=True)
            (kept / "sites").write_text("in the way")

    return {
        name: federation.submit(
            settings(method, only=() if name == "hulls" else GOOD, seed=SEED), name=name, prepare=prepare
        )
        for name, method in METHODS.items()
        if FULL or name == "hulls"
    }


def results(federation: Federation, site: str, job: Job) -> Path:
    """Return where a site keeps what it has after a run."""
    return federation.sites[site].path / "results" / job.run.hex()[:16]


def finished(federation: Federation, job: Job) -> Job:
    status = federation.wait(job)
    assert status["state"] == "finished", (
        status,
        federation.events(job)[-5:],
        federation.log("coordinator")[-3000:],
    )
    return job


@pytest.fixture(scope="module")
def hulls(federation: Federation, jobs: dict[str, Job]) -> Job:
    return finished(federation, jobs["hulls"])


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_what_the_embedded_engine_gives_byte_for_byte(
    federation: Federation, jobs: dict[str, Job], name: str, tmp_path: Path
) -> None:
    """The model file, and what each of the four sites has itself: what it learnt, and its own model."""
    job = finished(federation, jobs[name])
    embedded = fedgeom.run(METHODS[name], good(federation), seed=SEED, record=tmp_path / "embedded")
    model = "model.safetensors"
    assert (job.run_folder / model).read_bytes() == (tmp_path / "embedded" / model).read_bytes()
    for site in [site for site in GOOD if (name, site) != SPOILT]:
        kept = results(federation, site, job)
        for file in (f"{site}.json", f"{site}.safetensors"):
            expected = (tmp_path / "embedded" / "sites" / file).read_bytes()
            assert (kept / "sites" / file).read_bytes() == expected
        assert (kept / model).read_bytes() == expected
        assert not (kept / "error.txt").exists()
        own, rows = embedded.model.for_site(embedded.local[site]), federation.data[site].X
        np.testing.assert_array_equal(fedgeom.load_model(kept).predict(rows), own.predict(rows))


@pytest.mark.full
def test_the_coordinator_has_figures_of_all_and_each_site_its_own(
    federation: Federation, jobs: dict[str, Job]
) -> None:
    job = finished(federation, jobs["fedavg"])
    wanted = fedgeom.run(METHODS["fedavg"], good(federation), seed=SEED).evaluation
    told = read_evaluation(job.run_folder)
    assert told is not None
    assert (told["own"], told["local"], told.by_class) == (wanted["own"], wanted["local"], wanted.by_class)
    assert told.by_site == []
    for site, aside in zip(GOOD, wanted.by_site, strict=True):
        own = read_evaluation(results(federation, site, job))
        assert own is not None
        assert (own.rows, own.sites) == (aside.tested, 1)


@pytest.mark.full
def test_a_result_that_cannot_be_kept_is_told_at_the_site_wherever_its_steward_looks(
    federation: Federation, jobs: dict[str, Job]
) -> None:
    """And nowhere else: the run goes on with the site in it."""
    method, site = SPOILT
    job = finished(federation, jobs[method])
    assert all(event["state"] != "lost" for event in federation.events(job))
    told = "the site's own result could not be written: FileExistsError"
    entries = [e for e in Journal(federation.sites[site].path).entries() if e.run == job.run.hex()]
    assert told in entries[-1].note
    assert told in (results(federation, site, job) / "error.txt").read_text(encoding="utf-8")
    log = federation.log(site)
    assert f"the result of run {job.run.hex()[:8]} could not be written" in log
    assert "Traceback" in log
    assert federation.until(lambda: told in federation.said(site))
    assert "could not be written" not in federation.log("coordinator") + federation.said("coordinator")


def test_a_wrong_key_and_a_wrong_version_are_left_out_with_the_reason(federation: Federation, hulls: Job) -> None:
    lost = {event["site"]: event["detail"] for event in federation.events(hulls) if event["state"] == "lost"}
    assert set(lost) == {"erik", "frida"}
    assert "another key" in lost["erik"]
    assert "protocol version" in lost["frida"]


def test_what_sites_wrote_down_is_what_the_coordinator_wrote_down(federation: Federation, hulls: Job) -> None:
    ledger = Ledger.load(hulls.run_folder / "ledger.jsonl")
    for name in GOOD:
        journal = [e for e in Journal(federation.sites[name].path).entries() if e.run == hulls.run.hex()]
        received = [entry for entry in ledger if entry.site == name]
        assert [(e.answer, e.sent, e.received) for e in journal] == [
            (e.kind, e.bytes, e.received) for e in received
        ]
        assert len(journal) == 10
        line = f"asked hulls.encode ({journal[6].received:,} B)"
        assert federation.until(lambda name=name, line=line: line in federation.said(name))  # type: ignore[misc]


def test_each_site_can_use_the_model_in_its_own_words(federation: Federation, hulls: Job) -> None:
    folder = results(federation, "anna", hulls)
    result = json.loads((folder / "sites" / "anna.json").read_text(encoding="utf-8"))
    model = fedgeom.load_model(folder)
    assert set(model.predict(federation.data["anna"].X)) <= set(result["names"]) == {"yes", "no"}
    data = federation.data["anna"]
    assert np.mean(model.predict(data.X) == data.y) == pytest.approx(result["fits"])


@pytest.mark.full
def test_a_site_that_was_not_admitted_is_told_so(federation: Federation) -> None:
    stranger = SiteData("fritz", federation.data["anna"].X, federation.data["anna"].y)
    folder = federation.make_site(stranger)
    try:
        roster = Roster({**federation.coordinator.roster(), "fritz": folder.identity().public})
        (folder.path / "ca.pem").write_bytes((federation.coordinator.path / "ca.pem").read_bytes())
        roster.save(folder.path / "roster.json")
        federation.start_site("fritz")
        assert federation.until(lambda: "not admitted" in federation.said("fritz")), federation.said("fritz")
    finally:
        federation.kill("fritz")
        del federation.sites["fritz"]


@pytest.mark.full
def test_a_foreign_certificate_is_named_before_anything_is_sent(federation: Federation, tmp_path: Path) -> None:
    other = CoordinatorFolder.create(tmp_path / "other", names=["localhost"], host="127.0.0.1")
    endpoint = federation.sites["carl"].endpoint()
    check_certificate(endpoint)
    with pytest.raises(InputError, match="foreign"):
        check_certificate(replace(endpoint, certificate=other.path / "ca.pem"))
    theirs = federation.sites["carl"].path / "ca.pem"
    mine = theirs.read_bytes()
    theirs.write_bytes((other.path / "ca.pem").read_bytes())
    try:
        with pytest.raises(InputError, match="foreign"):
            check_site(federation.sites["carl"], lambda text: None)
    finally:
        theirs.write_bytes(mine)


@pytest.mark.full
def test_a_site_with_another_key_than_its_roster_says_does_not_even_start(federation: Federation) -> None:
    roster = federation.sites["bert"].path / "roster.json"
    mine = roster.read_bytes()
    roster.write_bytes((federation.sites["erik"].path / "roster.json").read_bytes())
    try:
        check_site(federation.sites["bert"], lambda text: None)  # only erik's line differs
        Roster({**federation.coordinator.roster(), "bert": Identity.generate().public}).save(roster)
        with pytest.raises(InputError, match="does not hold 'bert' with this site's identity"):
            check_site(federation.sites["bert"], lambda text: None)
    finally:
        roster.write_bytes(mine)


def test_a_process_that_is_cut_off_reaches_nobody_and_it_is_written_down(tmp_path: Path) -> None:
    """Or else the next test would say nothing."""
    environment = {**os.environ, **write_offline(tmp_path / "offline", tmp_path / "attempts")}
    for code in (
        "import socket; socket.create_connection(('192.0.2.1', 80), 1)",
        "import socket; socket.getaddrinfo('telemetry.example', 443)",
        "import ray",
    ):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
        assert done.returncode != 0
    assert [line.split()[0] for line in attempts_in(tmp_path / "attempts")] == ["look", "look", "import"]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_works_with_the_network_cut_off_and_nobody_tries_it(
    federation: Federation, jobs: dict[str, Job], name: str
) -> None:
    finished(federation, jobs[name])
    assert attempts_in(federation.root / "attempts") == []


@pytest.mark.full
def test_sites_are_described_as_in_one_process(federation: Federation) -> None:
    """A description is a job like any other: approved, summed, kept at the coordinator and at each site."""
    method = fedgeom.Describe()
    job = finished(federation, federation.submit(settings(method, only=GOOD, seed=SEED), name="describe"))
    embedded = fedgeom.run(method, good(federation), seed=SEED)
    told = fedgeom.load_model(job.run_folder)
    assert told.to_bytes() == embedded.model.to_bytes()
    for site in GOOD:
        assert fedgeom.load_model(results(federation, site, job)).frame().equals(told.frame())

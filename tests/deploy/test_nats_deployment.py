"""A coordinator and three sites as real processes, NATS between them, TLS on loopback: the embedded engine's model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedgeom
from fedgeom.deploy import submit
from fedgeom.deploy.jobs import Job
from fedgeom.deploy.journal import Journal
from fedgeom.federation.ledger import Ledger
from tests.deploy.deployment import QUIET_SECONDS, Federation, parts
from tests.deploy.making import parameters_of
from tests.deploy.offline import attempts_in, write_offline

pytest.importorskip("nats", reason="NATS is not installed")
pytest.importorskip("nkeys", reason="NATS is not installed")

pytestmark = pytest.mark.deployment

METHOD = fedgeom.Hulls(epsilon=0.05)
NAMES = ("anna", "bert", "carl")
SETTINGS = f'method = "hulls"\nseed = 3\nwait = 300\ndeadline = 600\n{parameters_of(METHOD)}\n'
MODEL = "model.safetensors"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Run three sites, cut off from every other machine."""
    root = tmp_path_factory.mktemp("nats")
    offline = write_offline(root / "offline", root / "attempts")
    with Federation(root, parts(3, rows=120), environment=offline) as made:
        made.start_all()
        yield made
    assert made.find() == []


def finished(there: Federation, job: Job) -> Job:
    status = there.wait(job)
    assert status["state"] == "finished", (status, there.events(job)[-5:], there.log("coordinator")[-3000:])
    return job


@pytest.fixture(scope="module")
def job(there: Federation) -> Job:
    return finished(there, there.submit(SETTINGS))


def test_the_same_seed_gives_the_same_files_byte_for_byte(there: Federation, job: Job, tmp_path: Path) -> None:
    fedgeom.run(METHOD, [there.data[name] for name in NAMES], seed=3, record=tmp_path / "embedded")
    assert (job.run_folder / MODEL).read_bytes() == (tmp_path / "embedded" / MODEL).read_bytes()
    for name in NAMES:
        kept = there.sites[name].path / "results" / job.run.hex()[:16] / "sites"
        for file in (f"{name}.json", f"{name}.safetensors"):
            assert (kept / file).read_bytes() == (tmp_path / "embedded" / "sites" / file).read_bytes()
    assert json.loads((job.run_folder / "config.json").read_text(encoding="utf-8"))["engine"] == "nats"


def test_what_sites_wrote_down_is_what_the_coordinator_wrote_down(there: Federation, job: Job) -> None:
    ledger = Ledger.load(job.run_folder / "ledger.jsonl")
    for name in NAMES:
        journal = [entry for entry in Journal(there.sites[name].path).entries() if entry.run == job.run.hex()]
        received = [entry for entry in ledger if entry.site == name]
        assert [(e.answer, e.sent, e.received) for e in journal] == [
            (e.kind, e.bytes, e.received) for e in received
        ]
        assert len(journal) == 10
        assert there.until(lambda name=name: "asked hulls.encode" in there.said(name))  # type: ignore[misc]


def test_nobody_tries_to_reach_another_machine(there: Federation, job: Job) -> None:
    assert attempts_in(there.root / "attempts") == []


def test_a_job_that_waits_for_a_site_is_stopped_and_resumed_when_the_site_is_back(
    there: Federation, job: Job
) -> None:
    there.kill("bert")
    assert there.until(lambda: "bert left" in there.said("coordinator"))
    waiting = there.submit(SETTINGS, name="waiting")
    assert there.until(lambda: submit.is_conducted(waiting) and len(there.events(waiting)) == 2)
    submit.stop(there.coordinator, waiting, patience=QUIET_SECONDS)
    assert there.status(waiting)["state"] == "interrupted"
    there.start_site("bert")
    there.resume(waiting)
    finished(there, waiting)
    assert (waiting.run_folder / MODEL).read_bytes() == (job.run_folder / MODEL).read_bytes()


def test_a_job_whose_process_is_killed_is_told_so_and_resumed(there: Federation, job: Job) -> None:
    there.hold("bert", "hulls.extent")
    killed = there.submit(SETTINGS, name="killed")
    assert there.until(lambda: any(event["kind"] == "hulls.extent" for event in there.events(killed)))
    assert there.kill_conductor(killed)
    there.release("bert")
    assert there.until(lambda: there.over(killed))
    assert there.status(killed)["state"] == "failed"
    assert "code -9" in there.status(killed)["detail"]
    there.resume(killed)
    finished(there, killed)
    assert (killed.run_folder / MODEL).read_bytes() == (job.run_folder / MODEL).read_bytes()

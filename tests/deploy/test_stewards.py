"""Three real sites whose stewards decide: one approves late, one revokes in the middle; nothing is lost either way."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedgeom
from fedgeom.deploy.jobs import Job, load_job
from fedgeom.deploy.journal import Journal, LocalEntry
from fedgeom.federation.messages import Refusal, Waiting
from fedgeom.federation.policy import hash_terms
from tests.deploy.deployment import Federation, stewarded
from tests.deploy.making import need_nats
from tests.deploy.test_deployment import settings

pytestmark = [pytest.mark.deployment, pytest.mark.full]

NAMES = ("anna", "bert", "carl")
SHORT, LONG = fedgeom.Moments(), fedgeom.FedAvg(n_rounds=200, epochs=1, min_sites=3)
COMMAND = [sys.executable, "-c", "from fedgeom.cli import app; app()"]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """Run three sites whose stewards have to be asked."""
    need_nats()
    with stewarded(tmp_path_factory.mktemp("stewards")) as made:
        yield made


class Submitted:
    """`fedgeom submit` as a program of its own, and what it prints."""

    def __init__(self, there: Federation, name: str, *words: str):
        self._there, self._out = there, there.root / f"{name}.out"
        with self._out.open("wb") as file:
            self.process = subprocess.Popen(
                [*COMMAND, "submit", *words, "--folder", str(there.coordinator.path)],
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._out.read_text(encoding="utf-8")

    def until(self, words: str) -> bool:
        """Wait until it has said something, or has ended."""
        self._there.until(lambda: words in self.said or self.process.poll() is not None)
        return words in self.said

    def code(self) -> int | None:
        self._there.until(lambda: self.process.poll() is not None)
        return self.process.poll()


def site(there: Federation, name: str, *words: str) -> str:
    """Do what a steward types."""
    command = [*COMMAND, "site", *words, "--folder", str(there.sites[name].path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout


def write(there: Federation, name: str, method: fedgeom.Method, seed: int) -> Path:
    file = there.root / f"{name}.toml"
    file.write_text(settings(method, seed=seed), encoding="utf-8")
    return file


def job_of(there: Federation, said: str) -> Job:
    found = re.search(r"^run (\S+) with", said, re.MULTILINE)
    assert found, said
    return load_job(there.coordinator, found[1])


def entries(there: Federation, name: str, job: Job) -> list[LocalEntry]:
    return [entry for entry in Journal(there.sites[name].path).entries() if entry.run == job.run.hex()]


def test_a_steward_who_approves_late(there: Federation) -> None:
    """The run waits and says so, also after its conductor was killed and resumed; then it goes on to its end."""
    file = write(there, "late", SHORT, seed=7)
    for name in ("anna", "bert"):
        site(there, name, "approve", str(file), "--yes")
    first = Submitted(there, "late-first", str(file))
    assert first.until("waiting for approval at carl"), first.said
    job = job_of(there, first.said)
    terms = hash_terms(job.terms()).hex()
    assert f"terms {terms}" in " ".join(first.said.split())
    assert there.until(
        lambda: "a job waits for your approval: moments with anna, bert, carl" in there.said("carl")
    )
    assert terms in there.said("carl")
    assert terms[:16] in site(there, "carl", "approvals")

    assert there.kill_conductor(job)
    first.process.terminate()
    first.process.wait()
    second = Submitted(there, "late-second", "--resume", job.name)
    assert second.until("waiting for approval at carl"), second.said
    assert [(entry.question, entry.answer) for entry in entries(there, "carl", job)] == [
        ("join.hello", Waiting.kind)  # asked often, said once; and nothing else has left
    ]
    assert not list((there.sites["carl"].path / "memory").glob(f"{job.run.hex()}*"))
    site(there, "carl", "approve", terms, "--yes")
    assert second.code() == 0, second.said
    assert "carl: answered join.hello" in second.said
    model = fedgeom.run(SHORT, [there.data[name] for name in NAMES], seed=7).model
    assert (job.run_folder / "model.safetensors").read_bytes() == model.to_bytes()
    assert "1/1" in site(there, "carl", "approvals")
    assert [entry.answer for entry in entries(there, "carl", job)].count(Waiting.kind) == 1


def test_a_steward_who_revokes_in_the_middle(there: Federation) -> None:
    """The site refuses in words and leaves; the run ends with the same words, and all that came is kept."""
    file = write(there, "middle", LONG, seed=1)
    for name in NAMES:
        site(there, name, "approve", str(file), "--yes")
    going = Submitted(there, "middle-first", str(file))
    assert going.until("bert: answered train.masked"), going.said
    job = job_of(there, going.said)
    terms = hash_terms(job.terms()).hex()
    assert "Revoked" in site(there, "bert", "revoke", terms[:10])
    assert going.code() == 1, going.said
    words = "its steward has revoked the approval of this job"
    assert "bert: lost" in going.said
    assert words in going.said
    status = there.status(job)
    assert status["state"] == "failed"
    assert words in status["detail"], status
    refusals = [entry.note for entry in entries(there, "bert", job) if entry.answer == Refusal.kind]
    assert words in refusals[0]
    assert there.until(lambda: words in there.said("bert"))
    assert "revoked" in site(there, "bert", "approvals")
    answered = [event for event in there.events(job) if event["state"] == "answered"]
    assert {event["site"] for event in answered} == set(NAMES)  # the record has all that came before
    assert (job.run_folder / "transcript.bin").stat().st_size > 0

    assert f"fedgeom submit --resume {job.name}" in going.said
    again = Submitted(there, "middle-second", "--resume", job.name)
    assert again.code() == 1, again.said  # what the others said is still there; bert has left for good
    assert words in there.status(job)["detail"]
    assert [entry.answer for entry in entries(there, "bert", job)][-1] == Refusal.kind


def test_what_was_revoked_is_a_new_run_with_a_new_approval(there: Federation) -> None:
    file = write(there, "anew", SHORT, seed=9)
    for name in NAMES:
        site(there, name, "approve", str(file), "--yes", "--runs", "2")
    site(
        there, "carl", "revoke", re.findall(r"terms +([0-9a-f]{64})", site(there, "carl", "preview", str(file)))[0]
    )
    going = Submitted(there, "anew", str(file))
    assert going.until("waiting for approval at carl"), going.said
    site(there, "carl", "approve", str(file), "--yes")
    assert going.code() == 0, going.said

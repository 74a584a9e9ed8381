"""The file of approvals: pinned, used, expired, revoked; private, and never guessed at."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import msgspec
import pytest

from fedgeom.deploy.approvals import (
    DAY,
    FORGET_NOTED,
    FORGET_WAITING,
    FORMAT,
    LARGEST_JOB,
    MOST_WAITING,
    QUIET_SECONDS,
    ApprovalStore,
)
from fedgeom.errors import InputError
from fedgeom.federation.policy import job_terms

JOB = job_terms("moments", {"a": 1}, 0, ["anna", "bert"])
ONE, TWO = "1" * 64, "1" + "2" * 63
NOW = 1_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(tmp_path, clock=lambda: NOW)


def later(store: ApprovalStore, seconds: float) -> ApprovalStore:
    return ApprovalStore(store.path.parent, clock=lambda: NOW + seconds)


def states(store: ApprovalStore) -> list[str]:
    return [one.state(store.clock()) for one in store.read().approvals]


def test_nothing_is_approved_in_the_beginning(store: ApprovalStore) -> None:
    assert store.read().approvals == store.read().waiting == ()
    assert not store.path.exists()


def test_an_approval_lasts_for_its_days_and_runs(store: ApprovalStore) -> None:
    store.pin(ONE, days=2, runs=2, job=JOB)
    assert states(store) == ["approved"]
    assert states(later(store, 2 * DAY - 1)) == ["approved"]
    assert states(later(store, 2 * DAY)) == ["expired"]
    for run in ("r1", "r2"):
        file = store.read()
        store.use(file, file.approvals[0], run)
    (one,) = store.read().approvals
    assert (one.used, one.job, one.state(NOW)) == (("r1", "r2"), JOB, "used up")


def test_the_file_is_for_its_owner_only(store: ApprovalStore) -> None:
    store.path.write_text('{"format": "fedgeom-approvals/1"}')
    store.path.chmod(0o644)
    store.pin(ONE, days=1, runs=1)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_pins_that_come_together_are_all_kept(store: ApprovalStore) -> None:
    hashes = [f"{n:064x}" for n in range(8)]
    threads = [threading.Thread(target=store.pin, args=(h,), kwargs={"days": 1, "runs": 1}) for h in hashes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.hash for one in store.read().approvals) == hashes


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"approvals": [{"hash": "12"}]}',
        b'{"approvals": [], "more": 1}',
        b'{"approvals": [{"hash": "' + b"1" * 64 + b'", "when": 0, "expires": 9e99, "runs": -1}]}',
    ],
)
def test_a_damaged_file_is_named_and_left_alone(store: ApprovalStore, content: bytes) -> None:
    store.path.write_bytes(content)
    for call in (store.read, lambda: store.pin(ONE, days=1, runs=1), lambda: store.revoke("1")):
        with pytest.raises(InputError, match=r"approvals\.json is damaged.*answers nothing until it is mended"):
            call()
    assert store.path.read_bytes() == content


def test_another_format_is_named(store: ApprovalStore) -> None:
    store.path.write_bytes(msgspec.json.encode({"format": "fedgeom-approvals/9"}))
    with pytest.raises(InputError, match=f"fedgeom-approvals/9.*{FORMAT}"):
        store.read()


# --- revoking ---


def test_revoked_is_final(store: ApprovalStore) -> None:
    store.pin(ONE, days=1, runs=5)
    store.pin(ONE, days=9, runs=1)
    store.pin(TWO, days=1, runs=1)
    assert store.revoke("11") == (ONE, 2)
    assert states(store) == ["revoked", "revoked", "approved"]
    assert store.revoke(ONE) == (ONE, 0)
    store.pin(ONE, days=1, runs=1)  # a new approval, for new runs
    assert states(store) == ["revoked", "revoked", "approved", "approved"]


@pytest.mark.parametrize(
    ("prefix", "words"),
    [("1", "2 approved jobs have a hash that begins with '1'"), ("3", "no approved job"), ("", "no approved job")],
)
def test_a_prefix_must_mean_one_job(store: ApprovalStore, prefix: str, words: str) -> None:
    store.pin(ONE, days=1, runs=1)
    store.pin(TWO, days=1, runs=1)
    with pytest.raises(InputError, match=words) as error:
        store.revoke(prefix)
    assert ONE in str(error.value)
    assert states(store) == ["approved", "approved"]


def test_nothing_to_revoke(store: ApprovalStore) -> None:
    with pytest.raises(InputError, match="wanted one of: none"):
        store.revoke("1")


# --- refusing ---


def test_a_job_that_waits_is_refused_until_it_is_approved_after_all(store: ApprovalStore) -> None:
    with store.exclusive():
        store.wait(store.read(), ONE, "r", JOB)
    with pytest.raises(InputError, match="no job that waits has a hash that begins with '2'"):
        store.refuse("2")
    assert store.refuse("11") == ONE
    assert store.read().waiting == ()
    assert states(store) == ["refused"]
    assert store.read().approvals[0].job == JOB
    store.pin(ONE, days=1, runs=1)
    assert states(store) == ["refused", "approved"]


# --- what waits, and what runs by a rule ---


def test_a_job_that_waits_is_new_once_until_it_is_approved_or_forgotten(store: ApprovalStore) -> None:
    assert store.wait(store.read(), ONE, "r1", JOB)
    assert not store.wait(store.read(), ONE, "r2", JOB)
    assert [(one.hash, one.run, one.job) for one in store.read().waiting] == [(ONE, "r1", JOB)]
    old = later(store, FORGET_WAITING)
    assert old.wait(old.read(), ONE, "r3", JOB)
    store.pin(ONE, days=1, runs=1, job=JOB)
    assert store.read().waiting == ()


def test_a_coordinator_cannot_fill_the_disk_with_jobs_that_wait(store: ApprovalStore) -> None:
    new = [store.wait(store.read(), f"{n:064x}", "r", JOB) for n in range(MOST_WAITING + 3)]
    assert new == [True] * MOST_WAITING + [False] * 3
    assert len(store.read().waiting) == MOST_WAITING
    store.pin(f"{MOST_WAITING:064x}", days=1, runs=1)
    long = job_terms("moments", {"a": "x" * LARGEST_JOB}, 0, ["anna"])
    assert store.wait(store.read(), ONE, "r", long)
    assert store.read().waiting[-1].job is None
    assert store.path.stat().st_size < 100 * 1024


def flood(store: ApprovalStore, count: int, *, alike: bool) -> None:
    for n in range(count):
        others = ["anna", "carl" if alike else f"carl-{n}"]
        store.wait(store.read(), f"{n:064x}", "r", job_terms("ridge", {"at": n}, n, others))


@pytest.mark.parametrize("alike", [True, False])
def test_a_flood_does_not_hide_a_job_that_comes_later(store: ApprovalStore, alike: bool) -> None:
    flood(store, MOST_WAITING + 20, alike=alike)
    store.wait(store.read(), ONE, "r", JOB)
    file = store.read()
    assert ONE in [one.hash for one in file.waiting]
    assert (len(file.waiting), file.dropped) == (MOST_WAITING, 21)


def test_a_flood_of_jobs_that_are_alike_displaces_none_but_its_own(store: ApprovalStore) -> None:
    store.wait(store.read(), ONE, "r", JOB)
    flood(store, 3 * MOST_WAITING, alike=True)
    assert store.read().waiting[0].hash == ONE


def test_that_jobs_gave_way_is_said_until_it_is_forgotten(store: ApprovalStore) -> None:
    assert store.read().dropped_line() == ""
    flood(store, MOST_WAITING + 2, alike=True)
    store.pin(ONE, days=1, runs=1)
    assert "2 gave way to newer ones" in store.read().dropped_line()
    old = later(store, FORGET_WAITING)
    assert old.wait(old.read(), ONE, "r", JOB)
    assert old.read().dropped_line() == ""


def test_in_a_flood_the_steward_is_not_told_of_every_job(store: ApprovalStore) -> None:
    flood(store, MOST_WAITING, alike=True)
    assert not store.wait(store.read(), ONE, "r", JOB)
    quiet = later(store, QUIET_SECONDS + 1)
    assert quiet.wait(quiet.read(), "2" * 64, "r", JOB)


def test_what_ran_by_a_rule_is_noted_once_per_job_and_forgotten_in_time(store: ApprovalStore) -> None:
    for run in ("r1", "r2"):
        store.note(store.read(), ONE, run, JOB, "any")
    (one,) = store.read().approvals
    assert (one.used, one.state(NOW)) == (("r1", "r2"), "by rule: any")
    old = later(store, FORGET_NOTED)
    old.note(old.read(), TWO, "r3", JOB, "any")
    assert [one.hash for one in old.read().approvals] == [TWO]

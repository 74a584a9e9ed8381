"""Workers answer for sites side by side: same model, same ledger, and a worker that dies loses its sites only."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.engines.workers import TOLD, Workers
from fedgeom.errors import ContractError, InputError
from fedgeom.federation.coordinator import Lost


def tables(count: int = 5) -> list[fedgeom.SiteData]:
    rng, y = np.random.default_rng(0), np.array(["a", "b", "c"] * 20)
    return [fedgeom.SiteData(f"s{at}", rng.normal(size=(60, 3)) + (y[:, None] == "a"), y) for at in range(count)]


@pytest.mark.parametrize(
    "method", [fedgeom.Moments(space="euclidean"), fedgeom.FedAvg(n_rounds=3), fedgeom.LocalOnly()]
)
def test_the_model_and_the_ledger_are_those_of_one_process(method: fedgeom.Method) -> None:
    one, several = (fedgeom.run(method, tables(), n_jobs=jobs) for jobs in (1, 3))
    assert one.model.to_bytes() == several.model.to_bytes()
    entries = [
        [(e.step, e.site, e.kind, e.bytes, e.received) for e in run.ledger.entries] for run in (one, several)
    ]
    assert entries[0] == entries[1]
    assert one.local.keys() == several.local.keys()


def test_a_run_that_was_interrupted_goes_on_with_workers(tmp_path) -> None:  # type: ignore[no-untyped-def]
    method, questions = fedgeom.FedAvg(n_rounds=4), []

    def stop(site: str, request: bytes) -> None:
        questions.append(site)
        if len(questions) > 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedgeom.run(method, tables(), record=tmp_path / "run", resumable=True, n_jobs=2, interfere=stop)
    resumed = fedgeom.run(method, tables(), record=tmp_path / "run", resume=True, n_jobs=2)
    assert resumed.model.to_bytes() == fedgeom.run(method, tables()).model.to_bytes()


def test_a_worker_that_dies_loses_its_sites_with_a_reason() -> None:
    def answer(site: str, request: bytes) -> bytes | Lost:
        if site == "b" and request == b"die":
            os.kill(os.getpid(), signal.SIGKILL)
        return Lost("asleep") if site == "d" else site.encode() + request

    workers = Workers(["a", "b", "c", "d"], 2, answer, lambda site: b"memory of " + site.encode())
    assert dict(workers.deliver(dict.fromkeys("abc", b"!"))) == {"a": b"a!", "b": b"b!", "c": b"c!"}
    found = dict(workers.deliver(dict.fromkeys("abcd", b"die")))
    gone = Lost("the worker process that answered for it died")
    assert found == {"a": b"adie", "b": gone, "c": gone, "d": Lost("asleep")}
    assert dict(workers.deliver(dict.fromkeys("ab", b"?"))) == {"a": b"a?", "b": gone}
    assert workers.close() == {"a": b"memory of a", "d": b"memory of d"}


def test_answers_that_nobody_took_are_no_memories() -> None:
    workers = Workers(list("abcd"), 2, lambda site, request: request, lambda site: site.encode())
    assert next(workers.deliver(dict.fromkeys("abcd", bytes(10**6)))) == ("a", bytes(10**6))
    assert workers.close() == {site: site.encode() for site in "abcd"}


def test_answers_come_in_the_order_of_the_questions_however_long_they_are() -> None:
    names = [f"site {at}" for at in range(9)]
    workers = Workers(names, 3, lambda site, request: site.encode() * len(request), lambda site: b"")
    requests = {name: bytes(10**6 if at % 2 else 1) for at, name in enumerate(names)}
    found = list(workers.deliver(requests))
    assert [name for name, _ in found] == names
    assert all(answer == name.encode() * len(requests[name]) for name, answer in found)
    workers.close()


def test_a_fault_of_the_method_is_raised_here() -> None:
    def answer(site: str, request: bytes) -> bytes:
        raise ZeroDivisionError("a handler divides")

    workers = Workers(["a"], 2, answer, lambda site: b"")
    with pytest.raises(ContractError, match="ZeroDivisionError: a handler divides"):
        list(workers.deliver({"a": b"?"}))
    workers.close()


def test_a_wrong_number_of_workers_is_refused() -> None:
    with pytest.raises(InputError, match="n_jobs=0 given; wanted 1"):
        fedgeom.run("moments", tables(), n_jobs=0)
    with pytest.raises(InputError, match="only the engine 'embedded' has workers"):
        fedgeom.run("moments", tables(), n_jobs=2, engine=type("Other", (EmbeddedEngine,), {}))


@pytest.mark.parametrize("told", [False, True])
def test_a_run_uses_one_numerical_thread_unless_the_environment_says_how_many(
    monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """On small arrays several threads fight each other; what was set before the run holds again after it."""
    from threadpoolctl import threadpool_info, threadpool_limits

    for name in TOLD:
        monkeypatch.delenv(name, raising=False)
    if told:
        monkeypatch.setenv(TOLD[0], "2")
    seen: set[int] = set()
    with threadpool_limits(2):
        before = {one["num_threads"] for one in threadpool_info()}
        fedgeom.run(
            fedgeom.Moments(space="euclidean"),
            tables(),
            watch=lambda _: seen.update(one["num_threads"] for one in threadpool_info()),
        )
        assert {one["num_threads"] for one in threadpool_info()} == before
    assert seen == (before if told else {1})

"""A simulated network: times by hand, slow and lost sites, and the same model as without."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.engines.network import NetworkEngine, SimulatedNetwork, Timing
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Lost

STILL: dict[str, Any] = {"speed": math.inf, "latency": 0.0, "bandwidth": 1e12, "coordinator": 1e12}


class Echo:
    """Answers every question with so many bytes."""

    roster: Any = None

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes
        self.names = tuple(sizes)

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        yield from ((name, bytes(self.sizes[name])) for name in requests)


def asked(
    network: SimulatedNetwork, sizes: Mapping[str, int], request: int = 0
) -> tuple[Timing, dict[str, bytes | Lost]]:
    engine = NetworkEngine(Echo(sizes), network)  # type: ignore[arg-type]
    return engine.timing, dict(engine.deliver(dict.fromkeys(sizes, bytes(request))))


def test_a_question_takes_twice_the_latency_and_the_time_on_the_lines() -> None:
    network = SimulatedNetwork(**STILL | {"latency": 0.1, "bandwidth": 8000.0})
    timing, came = asked(network, {"a": 2000, "b": 500}, request=1000)
    assert timing.seconds == pytest.approx(
        0.1 + 1.0 + 2.0 + 0.1
    )  # 1,000 bytes down and 2,000 up at 1,000 a second
    assert (timing.asked[0].down, timing.asked[0].up, timing.asked[0].slowest) == (2000, 2500, "a")
    assert len(came["a"]) == 2000  # type: ignore[arg-type]


def test_all_sites_share_the_line_of_the_coordinator() -> None:
    network = SimulatedNetwork(**STILL | {"coordinator": 8000.0})
    timing, _ = asked(network, {"a": 1000, "b": 1000, "c": 1000}, request=1000)
    # The requests leave at 1, 2 and 3 s; the answers are there at once and are read until 2, 3 and 4 s.
    assert timing.seconds == pytest.approx(4.0)


def test_slow_sites_are_waited_for_or_left_behind() -> None:
    sizes = {f"s{at}": 1000 for at in range(10)}
    slow = {"stragglers": 0.2, "slowdown": 5.0, "bandwidth": 8000.0}
    timing, _ = asked(SimulatedNetwork(**STILL | slow), sizes)
    assert timing.seconds == pytest.approx(5.0)
    timing, came = asked(SimulatedNetwork(**STILL | slow | {"patience": 2.0}), sizes)
    assert timing.seconds == pytest.approx(2.0)
    assert timing.asked[0].lost == 2
    late = [answer for answer in came.values() if isinstance(answer, Lost)]
    assert [one.reason for one in late] == ["did not answer within 2 s"] * 2


def test_lost_sites_are_named_and_patience_runs_out() -> None:
    timing, came = asked(SimulatedNetwork(**STILL | {"dropouts": 1.0, "patience": 3.0}), {"a": 1, "b": 1})
    assert all(isinstance(one, Lost) and "simulated" in one.reason for one in came.values())
    assert timing.seconds == pytest.approx(3.0)


def test_a_run_has_the_same_model_and_the_same_time_every_time() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 90)
    sites = fedgeom.split(rng.standard_normal((90, 3)) + 2 * y[:, None], y, n_sites=5)
    method, network = fedgeom.Moments(space="euclidean"), SimulatedNetwork(speed=math.inf, jitter=0.2)
    first, second = (fedgeom.run(method, sites, network=network) for _ in range(2))
    assert first.model.to_bytes() == second.model.to_bytes() == fedgeom.run(method, sites).model.to_bytes()
    assert first.timing.seconds == second.timing.seconds > 2 * 0.05 * len(first.timing.asked) * 0.5
    assert sum(one.up for one in first.timing.asked) == first.ledger.sent()
    assert {"moments.sum", "join.hello"} <= {one.kind for one in first.timing.asked}
    assert "questions" in repr(first.timing)
    assert fedgeom.run(method, sites).timing is None


def test_the_sites_work_counts_by_their_speed() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    sites = fedgeom.split(rng.standard_normal((2000, 40)) + y[:, None], y, n_sites=4)
    method = fedgeom.Moments(space="euclidean")
    slow = fedgeom.run(method, sites, network=SimulatedNetwork(latency=0.0, speed=1e-3)).timing.seconds
    none = fedgeom.run(method, sites, network=SimulatedNetwork(latency=0.0, speed=math.inf)).timing.seconds
    assert slow > none + 0.1  # milliseconds of work become seconds


@pytest.mark.parametrize(
    "wrong", [{"latency": -1}, {"bandwidth": 0}, {"dropouts": 2}, {"patience": 0}, {"speed": 0}]
)
def test_a_network_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        SimulatedNetwork(**wrong)  # type: ignore[arg-type]


def test_work_is_measured_in_one_process_only() -> None:
    sites = fedgeom.split(np.zeros((9, 2)), np.arange(9) % 2, n_sites=3)
    with pytest.raises(InputError, match="one process"):
        fedgeom.run("moments", sites, n_jobs=2, network=SimulatedNetwork())

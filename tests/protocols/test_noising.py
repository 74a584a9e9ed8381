"""Noise inside secure sums: how much, from where, and that nothing leaves without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, Moments, Policy, SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import ContractError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import unpack
from fedgeom.federation.session import Session
from fedgeom.methods.moments import core
from fedgeom.privacy.accounting import rho_for
from fedgeom.protocols.noise import smallest_cohort

CLASSES = ("a", "b")


def tables(count: int, columns: int = 1500, rows: int = 12, seed: int = 0) -> list[SiteData]:
    rng = np.random.default_rng(seed)
    return [
        SiteData(f"site-{at}", rng.normal(size=(rows, columns)), list(CLASSES) * (rows // 2))
        for at in range(count)
    ]


def method(**settings: Any) -> Moments:
    usual: dict[str, Any] = {"rule": "centroid", "space": "euclidean", "classes": CLASSES, "min_sites": 3}
    return Moments(**usual | {"privacy": DP(epsilon=1, delta=1e-5, clip=4)} | settings)


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What is read of sums, in the order in which it is; the first is the coordinator's."""
    found: list[np.ndarray] = []
    real = core.private_model

    def note(settings: Any, total: Any, *rest: Any, **options: Any) -> Any:
        found.append(total)
        return real(settings, total, *rest, **options)

    monkeypatch.setattr(core, "private_model", note)
    return found


def noise_in(found: np.ndarray, sites: list[SiteData], job: Moments) -> np.ndarray:
    X, y = np.vstack([site.X for site in sites]), np.concatenate([site.y for site in sites])
    return (found - core.bounded_moments(X, y, CLASSES, job, 4.0)) / core.sensitivity(False)


@pytest.mark.parametrize(("sites", "colluders"), [(3, 1), (3, 0), (6, 1)])
def test_a_secure_sum_has_the_noise_of_all_its_sites_and_that_of_the_honest_is_enough(
    sites: int, colluders: int, sums: list[np.ndarray]
) -> None:
    data, job = tables(sites), method(privacy=DP(epsilon=1, delta=1e-5, clip=4, colluders=colluders))
    fedgeom.run(job, data, seed=0)
    noise, needed = noise_in(sums[0], data, job), 1 / math.sqrt(2 * rho_for(1.0, 1e-5))
    assert noise.std() == pytest.approx(needed * math.sqrt(sites / (3 - colluders)), rel=0.12)
    assert noise.std() * math.sqrt((sites - colluders) / sites) > 0.88 * needed
    assert all((one == sums[0]).all() for one in sums)  # every site makes its model from the same sum


def test_noise_is_new_in_every_run_whatever_the_seed(sums: list[np.ndarray]) -> None:
    data = tables(3)
    fedgeom.run(method(), data, seed=0)
    first = sums[0].copy()
    sums.clear()
    fedgeom.run(method(), data, seed=0)
    assert (sums[0] != first).mean() > 0.99


def test_strict_policies_make_sums_larger_and_shares_smaller(sums: list[np.ndarray]) -> None:
    data = tables(6)
    fedgeom.run(method(), data, policy=Policy(min_cohort=5))
    needed = 1 / math.sqrt(2 * rho_for(1.0, 1e-5))
    assert noise_in(sums[0], data, method()).std() == pytest.approx(needed * math.sqrt(6 / 4), rel=0.12)


class Losing:
    """An engine from which a site vanishes when it is to be summed."""

    def __init__(self, inner: EmbeddedEngine, lost: str):
        self.inner, self.lost = inner, lost

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
        kind = unpack(next(iter(requests.values()))).kind
        gone = self.lost if kind.startswith(("moments.", "sum.")) else ""
        yield from self.inner.deliver({name: asked for name, asked in requests.items() if name != gone})
        if gone in requests:
            yield gone, Lost("it vanished")


class Twice(Losing):
    """An engine that asks everything twice, as a coordinator may; it goes on with the second answer."""

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
        first = {name: bytes(answer) for name, answer in self.inner.deliver(requests)}
        for name, answer in self.inner.deliver(requests):
            assert bytes(answer) == first[name]
            yield name, answer


def test_a_sum_that_is_asked_for_twice_has_the_same_noise(sums: list[np.ndarray]) -> None:
    job, data = method(holdout=0.2), tables(3)
    engine = EmbeddedEngine(job, data)
    Session(job, b"r" * 32, 0, engine.roster).conduct(Twice(engine, ""))
    assert sums  # all answers were the same, bit by bit, those with noise too


def test_sites_sign_no_list_of_fewer_than_the_noise_is_for() -> None:
    job = method(min_sites=4)
    engine = EmbeddedEngine(job, tables(4), policy=Policy(min_cohort=2))
    lying = replace(job, min_sites=3, privacy=replace(job.privacy, epsilon=2))  # it would go on with three
    object.__setattr__(lying, "terms", job.terms)
    with pytest.raises(
        fedgeom.FedgeomError, match="3 sites are left; the run's noise is calibrated for at least 4"
    ):
        Session(lying, b"r" * 32, 0, engine.roster).conduct(Losing(engine, "site-3"))


def test_a_handler_that_forgets_the_noise_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedgeom.methods.moments.site import MomentsSite

    def bare(self: Any, ask: Any, whole: Any, **bounds: Any) -> Any:
        return self.contribute(ask, whole)

    monkeypatch.setattr(MomentsSite, "contribute_noisy", bare)
    with pytest.raises(ContractError, match="noise belongs into all sums of a run with privacy"):
        fedgeom.run(method(), tables(3), seed=0)


def test_smallest_cohort_is_the_strictest_policys() -> None:
    class Keys:
        def __init__(self, least: int):
            self.min_cohort = least

    assert smallest_cohort(method(), {}) == 3
    assert smallest_cohort(method(), {"a": Keys(2), "b": Keys(7)}) == 7  # type: ignore[dict-item]

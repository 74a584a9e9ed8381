"""What a bound and noise add to a secure sum: with privacy ÷ without, CPU time of all sites and the coordinator.

    python benchmarks/privacy.py                  # 50, 10 and 3 sites × 10⁶ numbers; two minutes
    python benchmarks/privacy.py --quick          # 20 sites × 10⁵
    python benchmarks/privacy.py --json           # the last line is one JSON object

A whole run that adds up one vector, joining included; with privacy each site's vector is shortened to a bound, cut down
to whole numbers, and its share of discrete Gaussian noise added. Each pair is measured one after the other, four times
(50 sites: twice); what counts is the least time of each. Also: nanoseconds for one number of noise, and those of
OpenDP's sampler, where it is installed. Results go to benchmarks/results/privacy.json.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import fedgeom
from fedgeom.crypto.discrete_gaussian import discrete_gaussian
from fedgeom.crypto.masks import NoiseStream
from fedgeom.federation import plan
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.privacy import PrivacyOrTable
from fedgeom.federation.settings import ClassNames
from fedgeom.federation.site import Site, answers
from fedgeom.privacy.bounded_sums import FINE_ONE, BoundedVector
from fedgeom.protocols.cohort import join
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.site import Contribution, SummingSite

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep, parser

FULL, QUICK = [(10, 10**6), (3, 10**6), (50, 10**6)], [(20, 10**5)]
GOAL = 1.1
SIGMA = 370.0
"""A site's deviation on the grid of a sum, for the sampler alone: sums of 3 sites have it here."""
TIMES = 4


class AskBounded(SumQuestion, kind="bounded-vector.sum"):
    """Ask for a vector of this length."""

    length: int


class BoundedSite(SummingSite[Any]):
    """Adds a vector that is made beforehand, with a bound and noise where the terms say so."""

    vector: ClassVar[Any] = None

    @answers(AskBounded)
    def add(self, ask: AskBounded) -> Contribution:
        """Add the vector."""
        if self.settings.privacy is None:
            return self.contribute(ask, self.vector)
        whole = BoundedVector(self.vector, self.settings.privacy.clip)
        return self.contribute_noisy(ask, whole, sensitivity=2.0 * FINE_ONE)


@dataclass(frozen=True, repr=False)
class First(Model):
    """The first entry of the sum."""

    method = "bounded-vector"
    first: float

    def predict(self, X: Any) -> Any:
        """Return nothing of interest."""
        return np.full(len(X), self.first)


@dataclass(frozen=True, kw_only=True)
class AddVector(Method):
    """Sites add up one vector."""

    name: ClassVar[str] = "bounded-vector"
    site: ClassVar[type[Site[Any]]] = BoundedSite
    model_type: ClassVar[type[Model]] = First
    private_units: ClassVar[tuple[str, ...]] = ("site",)
    length: int
    classes: ClassNames = None
    min_sites: int = 2
    privacy: PrivacyOrTable = None

    def plan(self, shape: plan.Shape) -> plan.Plan:
        """Yield the one sum."""
        yield plan.Sum(AskBounded(length=self.length), self.length)

    def conduct(self, sites: Coordinator) -> First:
        """Join and add up."""
        cohort, ask = join(sites, self), AskBounded(length=self.length)
        if self.privacy is None:
            return First(float(cohort.sum_reals(ask, length=self.length)[0]))
        total = cohort.sum_counts(ask, length=self.length)
        return First(float(cohort.noise(sensitivity=2.0 * FINE_ONE, numbers=self.length).read(total)[0]))


def seconds(sites: int, length: int, *, private: bool) -> float:
    """Return the CPU time of one run."""
    tables = [fedgeom.SiteData(f"s{at:03d}", np.zeros((2, 1)), ["a", "b"]) for at in range(sites)]
    privacy = fedgeom.DP(epsilon=1, clip=1000.0, unit="site") if private else None
    method = AddVector(length=length, classes=("a", "b"), min_sites=sites, privacy=privacy)
    began = time.process_time()
    fedgeom.run(method, tables, policy=fedgeom.Policy(max_message_bytes=2**28))
    return time.process_time() - began


def measure(sites: int, length: int) -> dict[str, float]:
    """Return the least seconds with and without, and their ratio."""
    BoundedSite.vector = np.ones(2**10)
    for private in (False, True):
        seconds(3, 2**10, private=private)  # imports, tables and so on
    BoundedSite.vector = np.random.default_rng(0).normal(size=length)
    plain, noisy = zip(
        *(
            (seconds(sites, length, private=False), seconds(sites, length, private=True))
            for _ in range(TIMES if sites < 50 else 2)
        ),
        strict=True,
    )
    return {"plain": min(plain), "private": min(noisy), "ratio": min(noisy) / min(plain)}


def sampler(count: int) -> dict[str, float]:
    """Return how long a number of noise takes, in ns, and OpenDP's sampler, where it is installed."""
    made, stream = discrete_gaussian(SIGMA), NoiseStream(bytes(32))
    spent = []
    for _ in range(5):
        began = time.process_time()
        made.draw(stream, count)
        spent.append(time.process_time() - began)
    found = {"ns": 1e9 * min(spent) / count}
    try:
        import opendp.prelude as dp  # optional
    except ImportError:
        return found
    dp.enable_features("contrib")
    theirs = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float), scale=SIGMA)
    began = time.process_time()
    theirs([0] * 10_000)
    return found | {"opendp_ns": 1e9 * (time.process_time() - began) / 10_000}


def main() -> None:
    """Measure, print and keep the results."""
    options = parser(__doc__).parse_args()
    found: dict[str, Any] = {}
    for sites, length in QUICK if options.quick else FULL:
        one = measure(sites, length)
        found[f"{sites} sites × {length:,}"] = {key: round(value, 3) for key, value in one.items()}
        if not options.json:
            print(
                f"{sites} sites × {length:,} numbers: {one['private']:.2f} s ÷ {one['plain']:.2f} s = "
                f"{one['ratio']:.2f} (goal {GOAL})",
                flush=True,
            )
    found["sampler"] = {key: round(value, 1) for key, value in sampler(10**6).items()}
    if not options.json:
        print(found["sampler"])
    if not options.quick:
        keep("privacy", found)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()

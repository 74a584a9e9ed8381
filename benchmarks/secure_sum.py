"""What a secure sum costs ÷ the bare cipher that makes the same masks: CPU time of all sites and the coordinator.

    python benchmarks/secure_sum.py                  # 50 sites × 10⁶ numbers, 10 × 10⁷, 3 × 10⁷; about two minutes
    python benchmarks/secure_sum.py --quick          # 20 sites × 10⁵
    python benchmarks/secure_sum.py --json           # the last line is one JSON object

The cipher fills one buffer of 64 KiB again and again, as often as all masks of the sum need; the sum is a whole run of
a method that adds up one vector and does nothing else, joining included; the least of three. Peak memory is that
of the process over what it had before the run, in copies of one vector: all sites, one after the other, and the
coordinator. Then one site answers once more in a process of its own, as bytes that can be sent, and that is measured
alone. Results go to benchmarks/results/secure_sum.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import fedgeom
from fedgeom.crypto.masks import KeyStream
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.federation import plan
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import unpack
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.site import Site, answers
from fedgeom.protocols.cohort import join
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.site import Contribution, SummingSite

RESULTS = Path(__file__).resolve().parent / "results" / "secure_sum.json"
FULL, QUICK = [(50, 10**6), (10, 10**7), (3, 10**7)], [(20, 10**5)]
GOALS = {(50, 10**6): 1.3, (10, 10**7): 1.5}


class AskVector(SumQuestion, kind="one-vector.sum"):
    """Ask for a vector of this length."""

    length: int


class VectorSite(SummingSite[Any]):
    """Adds a vector that is made beforehand."""

    vector: ClassVar[Any] = None

    @answers(AskVector)
    def add(self, ask: AskVector) -> Contribution:
        """Add the vector."""
        return self.contribute(ask, self.vector)


@dataclass(frozen=True, repr=False)
class Sum(Model):
    """The first entry of the sum."""

    method = "one-vector"
    first: float

    def predict(self, X: Any) -> Any:
        """Return nothing of interest."""
        return np.full(len(X), self.first)


@dataclass(frozen=True, kw_only=True)
class OneVector(Method):
    """Sites add up one vector."""

    name: ClassVar[str] = "one-vector"
    site: ClassVar[type[Site[Any]]] = VectorSite
    model_type: ClassVar[type[Model]] = Sum
    length: int

    def plan(self, shape: plan.Shape) -> plan.Plan:
        """Yield the one sum."""
        yield plan.Sum(AskVector(length=self.length), self.length)

    def conduct(self, sites: Coordinator) -> Sum:
        """Join and add up."""
        return Sum(float(join(sites, self).sum_reals(AskVector(length=self.length), length=self.length)[0]))


def megabytes() -> float:
    """Return the most memory that the process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cipher_seconds(words: int) -> float:
    """Return the CPU time in which the cipher makes so many words."""
    stream, room = KeyStream(bytes(32)), memoryview(bytearray(1 << 16))
    began = time.process_time()
    for _ in range(0, words, len(room) // 8):
        stream.fill(room)
    return time.process_time() - began


def site_megabytes(engine: EmbeddedEngine, asked: tuple[str, bytes, bytes]) -> float:
    """Return how much a process grows that answers for one site alone, once more; it is forked from this one."""
    read, write = os.pipe()
    if os.fork() == 0:
        name, request, memory = asked
        before = megabytes()
        runner = engine.runners[name]
        runner.by_reference = False
        runner.answer(request, memory)
        os.write(write, f"{megabytes() - before}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as grown:
        found = float(grown.read())
    os.wait()
    return found


def held(
    method: OneVector, tables: list[fedgeom.SiteData]
) -> tuple[Any, EmbeddedEngine, tuple[str, bytes, bytes]]:
    """Hold a run; return it, its engine, and what the first site was asked for the sum and remembered by then."""
    policy, seen, answer = fedgeom.Policy(max_message_bytes=2**28), {}, EmbeddedEngine._answer_for

    def listen(engine: EmbeddedEngine, name: str, request: bytes) -> Any:
        if "asked" not in seen and unpack(request).kind == AskVector.kind:
            seen["asked"], seen["engine"] = (name, request, engine.memories[name]), engine
        return answer(engine, name, request)

    EmbeddedEngine._answer_for = listen  # type: ignore[method-assign]
    run = fedgeom.run(method, tables, policy=policy)
    EmbeddedEngine._answer_for = answer  # type: ignore[method-assign]
    return run, seen["engine"], seen["asked"]


def measure(sites: int, length: int) -> dict[str, float]:
    """Return seconds, their ratio, and memory for one sum."""
    tables = [fedgeom.SiteData(f"s{at:03d}", np.zeros((2, 1)), ["a", "b"]) for at in range(sites)]
    VectorSite.vector = np.ones(2**10)
    held(OneVector(length=2**10), tables)  # imports, tables of primes and so on
    VectorSite.vector = np.random.default_rng(0).normal(size=length)
    before, vector = megabytes(), 8 * length / 2**20
    spent, cipher = [], []
    for _ in range(3):
        began = time.process_time()
        found, engine, asked = held(OneVector(length=length), tables)
        spent.append(time.process_time() - began)
        assert abs(found.model.first - sites * VectorSite.vector[0]) < 1e-6
        # Each site's own mask and one for each other site; the coordinator takes the own masks off again.
        cipher.append(cipher_seconds(sites * (sites + 1) * length))
    return {
        "seconds": min(spent),
        "cipher": min(cipher),
        "ratio": min(spent) / min(cipher),
        "copies": (megabytes() - before) / vector,
        "copies_at_a_site": site_megabytes(engine, asked) / vector,
    }


def main() -> None:
    """Measure each case in a process of its own, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--case", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(*given.case)))
        return
    found = {}
    for sites, length in QUICK if given.quick else FULL:
        command = [sys.executable, __file__, "--case", str(sites), str(length)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        one = json.loads(done.stdout.splitlines()[-1])
        found[f"{sites} sites × {length:,}"] = {key: round(value, 3) for key, value in one.items()}
        goal = GOALS.get((sites, length))
        print(
            f"{sites} sites × {length:,} numbers: {one['seconds']:.2f} s ÷ {one['cipher']:.2f} s = "
            f"{one['ratio']:.2f}{f' (goal {goal})' if goal else ''}, {one['copies']:.1f} copies of the vector, "
            f"{one['copies_at_a_site']:.1f} in a site's own process"
        )
    if not given.quick:
        RESULTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if given.json:
        print(json.dumps(found, ensure_ascii=False))


if __name__ == "__main__":
    main()

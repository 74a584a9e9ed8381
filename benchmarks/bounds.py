"""What bounds cost ÷ a whole secure sum: sites cut numbers off, and the coordinator tests the sum.

    python benchmarks/bounds.py                  # 10 and 3 sites × 10⁶ numbers; some seconds
    python benchmarks/bounds.py --quick          # 20 sites × 10⁵
    python benchmarks/bounds.py --json           # the last line is one JSON object

CPU time. What is measured is what bounds add: counting and cutting off numbers at each site (`max_abs_value`), beyond
writing them in fixed point, and the test of the sum; the same for packed words of models (`max_abs_change`), where
cutting off is part of the packing and the test looks at every parameter of the mean. The whole is a run that adds up
one vector and does nothing else, joining included. Results go to benchmarks/results/bounds.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fedgeom
from fedgeom.methods.iterative.summed import Summed
from fedgeom.methods.iterative.tree import Tree
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.protocols.fixed_point import Packing
from fedgeom.protocols.secure_sum.messages import Ticket
from fedgeom.protocols.secure_sum.rules import bounded, check_sum

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.secure_sum import OneVector, VectorSite

RESULTS = Path(__file__).resolve().parent / "results" / "bounds.json"
GOAL = 0.1


def seconds(work: Callable[[], object], times: int = 7) -> float:
    """Return the least CPU time of several tries."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def measure(sites: int, length: int) -> dict[str, float]:
    """Return seconds of a whole sum, of what bounds add to it, and their ratio."""
    rng = np.random.default_rng(0)
    tables = [fedgeom.SiteData(f"s{at:03d}", np.zeros((2, 1)), ["a", "b"]) for at in range(sites)]
    VectorSite.vector = values = rng.normal(size=length)
    policy = fedgeom.Policy(max_message_bytes=2**28)
    whole = seconds(lambda: fedgeom.run(OneVector(length=length), tables, policy=policy), 3)

    names = tuple(site.name for site in tables)
    ask = SumClassMoments(classes=("a", "b"), curvature=None, ticket=Ticket(participants=names))
    plain, cut = (seconds(lambda one=one: bounded(ask, values, one, "s000")) for one in (None, 3.0))
    words = bounded(ask, values, 3.0, "s000")
    test = seconds(lambda: check_sum(SumClassMoments, words, sites, 3.0))

    form = Summed(Tree(model=Tree(w=np.zeros(length))), Packing(32, 64.0))
    given = Tree(model=Tree(w=np.zeros(length)))
    total, _ = form.write(Tree(model=Tree(w=values)), given, 1.0, 1.0, np.zeros(2), sites=sites)
    mean = form.read(total, given, 1.0)
    packed = seconds(lambda: form.check(mean, total, given, 1.0, sites))
    return {
        "whole": whole,
        "cutting off": sites * (cut - plain),
        "test": test,
        "test of packed": packed,
        "ratio": (sites * (cut - plain) + test) / whole,
        "packed ratio": packed / whole,
    }


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # sites say how much they cut off
    result = {}
    for sites, length in [(20, 10**5)] if given.quick else [(10, 10**6), (3, 10**6)]:
        found = {key: round(value, 5) for key, value in measure(sites, length).items()}
        result[f"{sites} sites × {length:,}"] = found
        print(
            f"{sites} sites × {length:,} numbers: {found['whole']:.2f} s, of which cutting off "
            f"{found['cutting off']:.3f} s and the test {found['test']:.4f} s are {found['ratio']:.1%}, the test of "
            f"packed models {found['packed ratio']:.1%} (goal {GOAL:.0%})"
        )
    if not given.quick:
        RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if given.json:
        print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()

"""All benchmarks in their quick form, as one table: what, the ratio, its goal, and whether it is met.

    python benchmarks/bench.py              # runs every benchmark with --quick; also `make bench`
    python benchmarks/bench.py --results    # the same table from the committed full results, into docs/benchmarks.md

Quick figures are of small sizes, taken once: a busy machine, or what every run costs whatever its size, makes them
worse than the full ones. What needs real processes and minutes (`engines.py`, `faults.py`, `attacks.py`) is not here.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import read

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN = "<!-- summary: begin -->"
END = "<!-- summary: end -->"


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    what: str
    value: float
    goal: float

    def line(self) -> str:
        """Return it as a row of a Markdown table."""
        met = "yes" if self.value <= self.goal else "**no**"
        return f"| {self.what} | {self.value:.4g} | ≤ {self.goal:g} | {met} |"


Found = Iterator[Figure]


def _sums(found: dict[str, Any]) -> Found:
    for case, figures in found.items():
        if case.startswith("3 sites"):  # with few masks, copies cost more than the cipher; there is no goal
            continue
        long = case.startswith("10 sites")
        yield Figure(
            f"masked sum, {case}, ÷ bare cipher over the same masks", figures["ratio"], 1.5 if long else 1.3
        )
        if long:
            yield Figure(f"masked sum, {case}: copies of the vector, all in one process", figures["copies"], 3)
            if "copies_at_a_site" in figures:
                yield Figure(f"masked sum, {case}: copies of the vector at a site", figures["copies_at_a_site"], 3)


def _bounds(found: dict[str, Any]) -> Found:
    for case, figures in found.items():
        yield Figure(f"bounds of contributions, {case}, ÷ the whole secure sum", figures["ratio"], 0.1)


def _privacy(found: dict[str, Any]) -> Found:
    for case, figures in found.items():
        if "sites" in case:
            yield Figure(f"bound and noise for privacy, {case}, ÷ the secure sum without", figures["ratio"], 1.1)


def _training(found: dict[str, Any]) -> Found:
    yield Figure("a round of 20 sites, small ConvNet, ÷ the bare torch loop", found["open_over_bare"], 1.1)
    yield Figure("the same ÷ a deepcopy for each client", found["over_deepcopy"], 1.05)
    yield Figure("the same, secure ÷ open", found["secure_over_open"], 1.2)
    yield Figure("bytes per parameter and site", found["bytes_per_parameter"], 4)


def _moments(found: dict[str, Any]) -> Found:
    yield Figure(f"Moments, {found['rows']:,.0f} × 50, ÷ bare NumPy", found["moments_over_bare"], 2)


def _hulls(found: dict[str, Any]) -> Found:
    for rows, figures in found.get("hull", {}).items():
        if int(rows) >= 100_000:
            yield Figure(f"hull of {int(rows):,} points ÷ Qhull alone", figures["ratio"], 1)
    if "rows" in found:
        rows = f"Hulls, {found['rows']['rows']:,} rows, 5 sites, 10 classes"
        yield Figure(f"{rows}, ÷ the same on pooled rows, hulls once", found["rows"]["over_twin"], 1.5)
        yield Figure(f"{rows}, ÷ the sites' hulls alone", found["rows"]["over_hulls"], 1.5)
    if "many" in found:
        many = found["many"]
        yield Figure(f"{many['sites']:,} sites, one-shot hulls: CPU s a site", many["cpu_s"] / many["sites"], 0.08)
        if many.get("most", 0) >= 2000:  # small runs are all overhead: their growth says nothing
            span = f"from {many['fewest']:,} to {many['most']:,} sites"
            yield Figure(f"one-shot hulls, {span}: exponent of CPU s", many["exponent"], 1.1)


def _reading(found: dict[str, Any]) -> Found:
    goals = {"csv": (1.2, 1.5), "parquet": (1.2, 1.5), "h5ad": (1.5, 1.5)}
    for kind, (time, memory) in goals.items():
        if kind in found:
            yield Figure(f"reading {kind} ÷ pandas or anndata: time", found[kind]["time"], time)
            yield Figure(f"reading {kind} ÷ pandas or anndata: memory", found[kind]["memory"], memory)


def _hamming(found: dict[str, Any]) -> Found:
    yield Figure("secure Hamming, two sites of 100 points, L = 4096: CPU s", found["lattice"]["L4096"]["cpu_s"], 6)


def _topology(found: dict[str, Any]) -> Found:
    if "fedavg_secure_over_open" in found:
        yield Figure("FedAvg, 50 sites × 1,000 rows, secure ÷ open", found["fedavg_secure_over_open"], 1.25)


def _workers(found: dict[str, Any]) -> Found:
    names = {"hulls": "hulls of 8 sites", "hulls_many": "hulls of 50 sites", "xclp": "XCLP over pairs"}
    for part, figures in found.items():
        if part != "limit":
            yield Figure(f"2 workers ÷ 1, {names.get(part, part)}: wall time", figures["wall"], 0.6)


def _preparation(found: dict[str, Any]) -> Found:
    for part in ("counts", "table", "large table"):
        if part in found:
            one = found[part]
            size = f"{one['rows']:,} × {one['columns']:,}"
            yield Figure(f"secure preparation, {size}, ÷ {one['rival']} on the pooled table", one["ratio"], 1.5)
    if "map" in found:
        one = found["map"]
        size = f"{one['rows']:,} × {one['columns']:,}, {one['landmarks']} landmarks"
        yield Figure(f"joint map, {size}: CPU seconds of the whole run", one["secure"], 20)
        yield Figure(f"joint map, {size}: sums", one["sums"], 15)


def _ridge(found: dict[str, Any]) -> Found:
    for part, figures in found.items():
        if not part.startswith("ridge_"):
            continue
        features = int(part.removeprefix("ridge_"))
        yield Figure(f"Ridge, D = {features:,}, ÷ bare features and Gram", figures["given over bare"], 1.5)


def _pairs(found: dict[str, Any]) -> Found:
    one = found.get("rows", {})
    if one.get("rows") == 2500:
        yield Figure("XCLP over pairs, 2,500 rows, 5 sites: CPU s", one["cpu_s"], 40)
        yield Figure("XCLP over pairs, 2,500 rows, 5 sites: MB that sites send", one["sent_MB"], 400)


def _engines(found: dict[str, Any]) -> Found:
    for sites, one in found.get("nats", {}).items():
        if one["goal"]:
            yield Figure(f"NATS, {sites} sites: s a question", one["seconds"], one["goal"])
        yield Figure(f"NATS, {sites} sites: server's CPU ms an answer", 1000 * one["server_answer_s"], 1.0)
    for sites, one in found.get("nats_long", {}).items():
        yield Figure(f"NATS, {sites} sites: s for each 60 MB of long answers", 60 / one["MB_s"], 1.0)


FIRST = {
    "tiny Ridge": 0.5,
    "tiny FedAvg": 0.7,
    "fedgeom methods moments": 0.4,
    "fedgeom demo": 8.0,
}
"""CPU seconds that programs may take which one meets first."""


def _first_use(found: dict[str, Any]) -> Found:
    for name, goal in FIRST.items():
        if name in found.get("programs", {}):
            yield Figure(f"{name}, a whole process: CPU s", found["programs"][name], goal)
    if "small" in found:
        yield Figure("Moments, 4 sites: CPU ms", found["small"]["run, ms"], 15)
        yield Figure("the same with holdout: CPU ms", found["small"]["with holdout, ms"], 40)
    if "large" in found:
        what = "9.2 million parameters, 5 sites, secure"
        yield Figure(f"{what}: CPU ns a parameter, site and round", found["large"]["secure, ns"], 30)
        yield Figure(f"{what} ÷ a plain loop", found["large"]["ratio"], 2)


@dataclass(frozen=True)
class Benchmark:
    """A script, how it is run quickly, and what its figures mean."""

    script: str
    read: Callable[[dict[str, Any]], Found]
    parts: tuple[str, ...] = ()
    """With --only, one after the other; empty: all."""
    quick: bool = True
    """Whether it has a quick form; what needs minutes and real processes is in the table of full results only."""


BENCHMARKS = (
    Benchmark("secure_sum", _sums),
    Benchmark("bounds", _bounds),
    Benchmark("privacy", _privacy),
    Benchmark("training", _training),
    Benchmark("moments", _moments),
    Benchmark("hulls", _hulls, ("hull", "rows", "many")),
    Benchmark("reading", _reading, ("csv", "parquet", "h5ad")),
    Benchmark("hamming", _hamming, ("lattice",)),
    Benchmark("workers", _workers, ("training", "hulls", "hulls_many", "xclp")),
    Benchmark("pairs", _pairs, quick=False),
    Benchmark("preparation", _preparation, ("table", "map")),
    Benchmark("ridge", _ridge, quick=False),
    Benchmark("topology", _topology, ("fedavg_secure_over_open",)),
    Benchmark("engines", _engines, quick=False),
    Benchmark("first_use", _first_use, ("programs", "small", "large")),
)


def quick(benchmark: Benchmark) -> dict[str, Any]:
    """Run a benchmark in its quick form; its last line is one JSON object."""
    found: dict[str, Any] = {}
    for part in benchmark.parts or ("",):
        command = [sys.executable, str(HERE / f"{benchmark.script}.py"), "--quick", "--json"]
        done = subprocess.run(
            [*command, *(["--only", part] if part else [])], capture_output=True, text=True, check=True
        )
        found |= json.loads(done.stdout.splitlines()[-1])
    return found


def committed(benchmark: Benchmark) -> dict[str, Any]:
    """Return the full results that were committed; nothing where none were yet."""
    path = HERE / "results" / f"{benchmark.script}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def table(figures: list[Figure]) -> str:
    """Return the figures as a Markdown table, with how many goals are met."""
    met = sum(figure.value <= figure.goal for figure in figures)
    rows = [figure.line() for figure in figures]
    return "\n".join(
        [
            f"{met} of {len(figures)} goals are met.",
            "",
            "| what | figure | goal | met |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def summary() -> str:
    """Return the table of the committed results, as it stands in docs/benchmarks.md."""
    return table([figure for one in BENCHMARKS if (found := committed(one)) for figure in one.read(found)])


def beside() -> str:
    """Return the committed results of `peers.py` as a table, as it stands in docs/benchmarks.md."""
    rows = [
        "| job | with | lines written | CPU s | peak MB | accuracy | ours ÷ it |",
        "|---|---|---|---|---|---|---|",
    ]
    for job, found in read("peers").items():
        for name, one in found.items():
            if "skipped" in one:
                rows.append(f"| {job} | {name} | {one['lines']} | not measured: {one['skipped']} | | | |")
                continue
            figures = (
                f"{one['cpu_s']:.1f} | {one['peak_MB']:,.0f} | {one['accuracy']:.3f} | {one['ours_over_it']:.2f}"
            )
            rows.append(f"| {job} | {name} | {one['lines']} | {figures} |")
    return "\n".join(rows)


def filled(page: str) -> str:
    """Return the page with both tables from the committed results."""
    for name, body in (("beside", beside()), ("summary", summary())):
        page = re.sub(
            rf"(<!-- {name}: begin -->\n).*?(\n<!-- {name}: end -->)",
            lambda found, body=body: f"{found[1]}{body}{found[2]}",
            page,
            flags=re.DOTALL,
        )
    return page


def main() -> None:
    """Run, print, and with --results write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", action="store_true")
    options = parser.parse_args()
    if options.results:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        print(summary())
        return
    figures = []
    for one in (one for one in BENCHMARKS if one.quick):
        print(f"{one.script} …", file=sys.stderr, flush=True)
        try:
            figures += one.read(quick(one))
        except subprocess.CalledProcessError as error:  # the others are there all the same
            print(f"{one.script} failed: {error.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    print(table(figures))


if __name__ == "__main__":
    main()

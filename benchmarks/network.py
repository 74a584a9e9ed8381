"""How long runs would take over a wide network, for 10 to 1,000 sites: with slow sites, and with sites that are lost.

    python benchmarks/network.py            # some minutes; writes benchmarks/results/network.json and the picture
    python benchmarks/network.py --quick    # 10 and 30 sites, prints only

Messages are those of `fedgeom cost`, which are a run's to the byte, and are put through several networks
(`SimulatedNetwork`). Where sites are lost the conversation is another one: there runs are held, all sites in this
process. Sites' work counts nothing (``speed`` infinite), so that figures are of lines and latencies alone.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep

import fedgeom
from fedgeom.engines.network import NetworkEngine, Timing
from fedgeom.protocols.plan import Costs, costs_of, shape_of
from fedgeom.report.palette import colours

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "network.png"
COUNTS = (10, 30, 100, 300, 1000)
WIDE: dict[str, Any] = {"latency": 0.05, "bandwidth": 20e6, "coordinator": 1e9, "speed": math.inf}
REPLAYED = {
    "50 ms, 20 Mbit/s a site, 1 Gbit/s at the coordinator": {},
    "a tenth of the sites ten times slower": {"stragglers": 0.1},
    "polled: each question half a second more": {"overhead": 0.5},
    "the coordinator's line 100 Mbit/s": {"coordinator": 1e8},
}
LOSSES = "a site in 2,000 lost at each question, waited for 10 s"
LOSING: dict[str, Any] = {"dropouts": 0.0005, "patience": 10.0}
METHODS = {
    "Moments, one shot": (fedgeom.Moments(space="euclidean", classes=("a", "b")), 1000),
    "FedAvg, 20 secure rounds": (fedgeom.FedAvg(n_rounds=20, classes=("a", "b"), epochs=1), 100),
}
"""Each with the most sites that are also run with losses."""


def drawn(count: int) -> list[fedgeom.SiteData]:
    """Return so many small sites of 20 columns."""
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"] * 10)
    shift = np.where(labels == "a", 0.0, 1.0)[:, None]
    return [fedgeom.SiteData(f"s{k:04}", rng.normal(size=(20, 20)) + shift, labels) for k in range(count)]


@dataclass
class Written:
    """An engine whose sites answer at once, with as many bytes as was said before."""

    names: tuple[str, ...]
    answer: bytes = b""

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Yield blank answers."""
        yield from ((name, self.answer) for name in requests)


def replay(costs: Costs, names: tuple[str, ...], network: fedgeom.SimulatedNetwork) -> Timing:
    """Put a run's messages through a network."""
    inner = Written(names)
    engine = NetworkEngine(inner, network)  # type: ignore[arg-type]
    for one in costs.exchanges:
        inner.answer, asked = bytes(round(one.up)), dict.fromkeys(names, bytes(round(one.down)))
        for _ in range(one.times):
            list(engine.deliver(asked))
    return engine.timing


def measure(counts: tuple[int, ...]) -> dict[str, Any]:
    """Return seconds by method, network and number of sites, and how many sites were lost."""
    found: dict[str, Any] = {}
    for title, (method, most) in METHODS.items():
        lines: dict[str, dict[int, Any]] = {name: {} for name in (*REPLAYED, LOSSES)}
        found[title] = lines
        for count in counts:
            sites = drawn(count)
            costs = costs_of(method, shape_of(method, sites))
            names = tuple(site.name for site in sites)
            for name, other in REPLAYED.items():
                lines[name][count] = {
                    "seconds": replay(costs, names, fedgeom.SimulatedNetwork(**WIDE | other)).seconds
                }
            shown = ", ".join(f"{line[count]['seconds']:.1f}" for line in lines.values() if count in line)
            if count <= most:
                run = fedgeom.run(method, sites, network=fedgeom.SimulatedNetwork(**WIDE | LOSING, seed=count))
                assert run.timing is not None
                lines[LOSSES][count] = {"seconds": run.timing.seconds, "lost": len(run.lost)}
                shown += f"; with losses {run.timing.seconds:.1f}, {len(run.lost)} lost"
            print(f"{title}, {count} sites: {shown}", flush=True)
    return found


def draw(found: Mapping[str, Any]) -> None:
    """Draw all lines, a panel a method."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["axes.prop_cycle"] = mpl.cycler(color=colours(5))
    figure, axes = plt.subplots(1, len(found), figsize=(11, 4.6), sharey=True, layout="constrained")
    for panel, (title, lines) in zip(np.atleast_1d(axes), found.items(), strict=True):
        for (name, line), mark in zip(lines.items(), "os^Dv", strict=True):
            at = [int(count) for count in line]
            seconds = [one["seconds"] for one in line.values()]
            style = "none" if name == LOSSES else "-"  # runs of their own, each with its luck
            panel.plot(at, seconds, marker=mark, markersize=5, linestyle=style, label=name)
            for count, one in line.items():
                if one.get("lost"):
                    where = int(count), one["seconds"]
                    panel.annotate(f"{one['lost']} lost", where, (0, -14), textcoords="offset points", ha="center")
        counts = [int(count) for count in next(iter(lines.values()))]
        panel.set(xscale="log", yscale="log", xlabel="sites", title=title)
        panel.set_xticks(counts, [f"{count:,}" for count in counts])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    ticks = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    low, high = axes[0].get_ylim()
    axes[0].set_yticks([t for t in ticks if low <= t <= high], [f"{t:g}" for t in ticks if low <= t <= high])
    axes[0].set_ylabel("seconds, sites' work aside")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Measure, keep and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", action="store_true", help="only draw what is kept")
    options = parser.parse_args()
    kept = Path(__file__).parent / "results" / "network.json"
    if options.draw:
        draw(json.loads(kept.read_text(encoding="utf-8")))
        return
    found = measure(COUNTS[:2] if options.quick else COUNTS)
    if not options.quick:
        keep("network", found)
        draw(found)


if __name__ == "__main__":
    main()

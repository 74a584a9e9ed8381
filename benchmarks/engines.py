"""What carrying questions by NATS and by Flower costs, compared with the embedded engine.

    python benchmarks/engines.py                     # everything: half an hour
    python benchmarks/engines.py --quick             # NATS with 2 and 10 sites: two minutes
    python benchmarks/engines.py --only nats|sites|settings   # sites and settings: by Flower
    python benchmarks/engines.py --sites 10          # this number of sites only
    python benchmarks/engines.py --small             # no large messages
    python benchmarks/engines.py --json              # the last line is one JSON object

A coordinator and the sites are processes on loopback, with TLS and node keys, all on this machine. The run is one
of `Moments` with the classes agreed (six questions); rows with two columns make messages of about a kilobyte, rows
with 500 to 2,000 columns messages of 2 to 32 MB, in both directions. Times are wall-clock seconds from the moment a
question is asked to the moment its last answer is in, the best of two runs (with 50 sites, of one). By NATS it is the
median over the questions of five runs, the whole way: the site's fork, its journal on the disk, the coordinator's
transcript. Long answers come from sites that have nothing to compute. Results go to benchmarks/results/engines.json,
the table to docs/engines.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.deploy.deployment import Federation  # noqa: E402
from tests.engines.nats.carrying import memory_of, running_server  # noqa: E402
from tests.waiting import until  # noqa: E402

import fedgeom  # noqa: E402
from fedgeom.data.sites import SiteData  # noqa: E402
from fedgeom.deploy.programs import write_launchers  # noqa: E402
from fedgeom.engines.flower import commands  # noqa: E402
from fedgeom.engines.flower import commands as flower  # noqa: E402
from fedgeom.engines.nats.engine import NatsEngine, NatsLink  # noqa: E402
from fedgeom.engines.processes import free_port  # noqa: E402
from fedgeom.federation.coordinator import Event  # noqa: E402
from fedgeom.federation.session import Session  # noqa: E402

RESULTS = HERE / "results" / "engines.json"
PAGE = HERE.parent / "docs" / "engines.md"
METHOD = fedgeom.Moments(space="euclidean", rule="centroid", classes=("no", "yes"))
SETTINGS = 'method = "moments"\nwait = 600\ndeadline = 900\nmin_sites = {n}\n[parameters]\nspace = "euclidean"\n'
SETTINGS += 'rule = "centroid"\nclasses = ["no", "yes"]\n'
LARGE = ("moments.sum", "model.result")
COLUMNS = {2: 2000, 10: 1000, 50: 500}
"""How wide the rows are that make large messages, by the number of sites."""
LONGEST = 1200.0
LINK = "guards/flower-superlink"
AT_ONCE = 4
"""How many nodes start at the same time."""
IDLE_SECONDS = 5.0
"""How long after the last question nothing happens any more."""
GOALS = {2: 0.4, 8: 0.8, "requests": 8, "link": 0.05}
"""The most seconds a question may take, the most requests an answer, the most of the SuperLink's processor."""
SITE_MEGABYTES = 300
"""What a site's processes need at most."""


@dataclass(frozen=True)
class Variant:
    """What is switched off, to see what it brings."""

    hold: bool = True
    attach: bool = True
    memory: bool = True


VARIANTS = {
    "what fedgeom does": Variant(),
    "polls are not held: sites look every 3 s, as Flower does it, the coordinator every 0.5 s": Variant(
        hold=False
    ),
    "every part of a message in a request of its own, as Flower does it": Variant(attach=False),
    "the SuperLink's state in its database instead of in memory": Variant(memory=False),
}

CUSTOM = """\
import sys

if "/guards/" in " ".join(sys.orig_argv) or "-c" in sys.orig_argv:
    import fedgeom.engines.flower.carrier as attachments
    import fedgeom.engines.flower.commands as commands

    commands.DATABASE = commands.DATABASE if {memory} else "state.db"
    attachments.LARGEST = attachments.LARGEST if {attach} else 0
    if "/guards/" in " ".join(sys.orig_argv):
        import fedgeom.engines.flower.engine as engine
        import fedgeom.engines.flower.message_layer as message_layer

        message_layer.LONGEST_HOLD = message_layer.LONGEST_HOLD if {hold} else 0.0
    if "flower-superlink" in " ".join(sys.orig_argv):
        from fedgeom.engines.flower.patches import AccessFilter

        passed = AccessFilter.__call__

        async def count(self, scope, receive, send):
            if scope["type"] == "http":
                with open("{count}", "a", encoding="utf-8") as file:
                    file.write(scope["path"] + "\\n")
            await passed(self, scope, receive, send)

        AccessFilter.__call__ = count
"""
"""What every process of a measured federation does first."""


def make_sites(n: int, columns: int) -> list[SiteData]:
    """Return sites with few rows and this many columns."""
    rng = np.random.default_rng(n)
    y = np.array(["no", "no", "yes", "yes"])
    return [SiteData(f"site-{k}", rng.normal(size=(4, columns)), y) for k in range(n)]


class Watch:
    """Turns events into seconds per question."""

    def __init__(self) -> None:
        self.began: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.kinds: dict[int, str] = {}

    def event(self, step: int, kind: str, state: str) -> None:
        """Note an event that has just happened."""
        now = time.perf_counter()
        if state == "asked":
            self.began.setdefault(step, now)
            self.kinds[step] = kind
        elif state == "answered":
            self.ended[step] = now

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each question."""
        return {self.kinds[step]: self.ended[step] - self.began[step] for step in self.began if step in self.ended}


def embedded(n: int, columns: int) -> tuple[dict[str, float], bytes]:
    """Measure the embedded engine: the best of three runs, and the model."""
    policy = fedgeom.Policy(min_cohort=2)
    best: dict[str, float] = {}
    for _ in range(3):
        watch = Watch()

        def listen(event: Event, watch: Watch = watch) -> None:
            watch.event(event.step, event.kind, event.state)

        run = fedgeom.run(METHOD, make_sites(n, columns), policy=policy, watch=listen)
        for kind, seconds in watch.seconds().items():
            best[kind] = min(seconds, best.get(kind, seconds))
    return best, run.model.to_bytes()


@contextmanager
def federation(n: int, variant: Variant) -> Iterator[Federation]:
    """Run a federation; nodes are started without the program that looks after them, to save memory."""
    with tempfile.TemporaryDirectory() as folder:
        custom = Path(folder) / "custom"
        custom.mkdir()
        (custom / "sitecustomize.py").write_text(
            CUSTOM.format(**vars(variant), count=Path(folder) / "requests"), encoding="utf-8"
        )
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(custom), *([before] if before else [])])
        nodes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            with Federation(Path(folder), make_sites(n, 2)) as there:
                for site in there.sites.values():
                    text = site.config_file.read_text(encoding="utf-8")
                    site.config_file.write_text(text.replace("min_cohort = 3", "min_cohort = 2"))
                there.start_coordinator()
                try:
                    connect(there, nodes)
                    yield there
                finally:
                    for node in nodes.values():
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(node.pid, signal.SIGTERM)
                    for node in nodes.values():
                        node.wait(60)
        finally:
            os.environ.pop("PYTHONPATH")
            if before is not None:
                os.environ["PYTHONPATH"] = before


def connect(there: Federation, nodes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Start nodes a few at a time, and again when they give up, as `fedgeom site start` does.

    A hundred programs that start at once on two processors hinder each other.
    """
    end = time.monotonic() + LONGEST
    waiting = list(there.sites)
    while waiting:
        for name in waiting[:AT_ONCE]:
            if name not in nodes or nodes[name].poll() is not None:
                nodes[name] = start_node(there, name)
        time.sleep(1)
        waiting = [name for name in waiting if commands.ACTIVATED not in there.log(name)]
        if time.monotonic() > end:
            raise RuntimeError(f"{len(waiting)} sites did not connect within {LONGEST:g} s: {', '.join(waiting)}")


def start_node(there: Federation, name: str) -> subprocess.Popen[bytes]:
    """Start a site's SuperNode by itself."""
    site = there.sites[name]
    home = site.path / "flower"
    home.mkdir(exist_ok=True)
    command = flower.supernode(
        site.config().coordinator,
        port=free_port(),
        site=site.path,
        certificate=site.path / "ca.pem",
        key=site.node_key,
    )
    with (site.path / "site.log").open("ab") as log:
        environment = flower.environment(home, launchers=write_launchers(home))
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def processor_seconds(there: Federation, word: str = "") -> float:
    """Return the processor time that a federation's processes (with this word in their commands) have used so far."""
    ticks = 0
    for process in there.find(word):
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def megabytes_used(there: Federation) -> float:
    """Return the memory of all processes of a federation; what several share is counted once."""
    total = 0
    for process in there.find():
        try:
            lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def need_memory(n: int) -> None:
    """Refuse to start more sites than there is memory for."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 1024
    if free < n * SITE_MEGABYTES:
        sys.exit(f"{n} sites need {n * SITE_MEGABYTES:,} MB of memory; {free:,.0f} MB are free")


def flower_runs(there: Federation, n: int, columns: int, times: int) -> tuple[dict[str, float], bytes]:
    """Return each question's best time of a few runs by Flower, and the model."""
    best: dict[str, float] = {}
    for _ in range(times):
        seconds, model = flower_run(there, n, columns)
        best = {kind: min(value, best.get(kind, value)) for kind, value in seconds.items()}
    return best, model


def flower_run(there: Federation, n: int, columns: int) -> tuple[dict[str, float], bytes]:
    """Measure one run by Flower."""
    for site in make_sites(n, columns):
        np.savez(there.sites[site.name].path / "data.npz", X=site.X, y=site.y)
    job = there.submit(SETTINGS.format(n=n), name=f"columns-{columns}")
    watch = Watch()
    seen = 0
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        state = there.status(job)["state"]
        events = there.events(job)
        for event in events[seen:]:
            watch.event(event["step"], event["kind"], event["state"])
        seen = len(events)
        if state in ("failed", "finished"):
            break
        time.sleep(0.02)
    if state != "finished":
        raise RuntimeError(f"{there.status(job)}")
    return watch.seconds(), (job.run_folder / "model.safetensors").read_bytes()


def megabytes(columns: int) -> float:
    """Return the size of a large answer."""
    return 8 * 2 * (1 + columns + columns * (columns + 1) // 2) / 1e6


def per_question(seconds: dict[str, float]) -> float:
    """Return the mean over questions with small messages, the first one left out: there processes start."""
    return statistics.mean(s for kind, s in seconds.items() if kind not in (*LARGE, "join.hello"))


def per_megabyte(small: dict[str, float], large: dict[str, float], columns: int) -> float:
    """Return the extra seconds for each MB that every site gets or gives."""
    return sum(large[kind] - small[kind] for kind in LARGE) / (2 * megabytes(columns))


def measure(
    n: int,
    variant: Variant | None = None,
    *,
    large: bool,
    save: Callable[[dict[str, Any]], None] = lambda row: None,
) -> dict[str, Any]:
    """Compare the engines with this many sites; ``save`` gets what is known before the large messages."""
    need_memory(n)
    began = time.monotonic()
    times = 2 if n < 50 else 1
    plain, expected = embedded(n, 2)
    columns = COLUMNS.get(n, 500)
    row: dict[str, Any] = {"sites": n, "runs": times, "embedded_question_s": per_question(plain)}
    with federation(n, variant or Variant()) as there:
        row["load_before"] = os.getloadavg()[0]
        flower_run(there, n, 2)  # the first one imports what the others find imported
        before, asked = processor_seconds(there, LINK), requests(there)
        carried, model = flower_runs(there, n, 2, times)
        answers = times * n * len(carried)
        row["link_answer_s"] = (processor_seconds(there, LINK) - before) / answers
        row["requests"] = (requests(there) - asked) / answers
        row |= {"flower_question_s": per_question(carried), "same_model": model == expected}
        row["question_ratio"] = row["flower_question_s"] / row["embedded_question_s"]
        row["slowdown"] = slowdown()
        row["megabytes"] = round(megabytes_used(there))
        if large:
            save(row)
            time.sleep(IDLE_SECONDS)
            used = processor_seconds(there)
            start = time.perf_counter()
            time.sleep(10)
            row["idle_processors"] = (processor_seconds(there) - used) / (time.perf_counter() - start)
            heavy, expected = embedded(n, columns)
            slow, model = flower_runs(there, n, columns, times)
            row["same_model"] &= model == expected
            row["MB"] = megabytes(columns)
            row["embedded_MB_s"] = per_megabyte(plain, heavy, columns)
            row["flower_MB_s"] = per_megabyte(carried, slow, columns)
            row["MB_ratio"] = row["flower_MB_s"] / row["embedded_MB_s"]
    row["took_s"] = round(time.monotonic() - began)
    return row


def slowdown() -> float:
    """Return how many seconds a second of processor time takes just now."""
    began = time.perf_counter()
    used = time.process_time()
    while time.process_time() < used + 0.3:
        pass
    return (time.perf_counter() - began) / (time.process_time() - used)


def requests(there: Federation) -> int:
    """Return how many requests the SuperLink got so far; starting a run and asking how it stands is left out."""
    file = there.root / "requests"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return sum("/v1/control/" not in line for line in lines)


def figure(value: float) -> str:
    """Write a figure with as many digits as it is good for."""
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def page(results: dict[str, Any]) -> str:
    """Return the page with the tables."""
    rows = list(results.get("sites", {}).values())
    before = results.get("before", {})
    rows.sort(key=lambda row: int(row["sites"]))
    lines = [*HEAD, "", *nats_lines(results.get("nats", {}), results.get("nats_long", {})), *TABLE_HEAD[1:]]
    lines += [
        f"| {row['sites']} | {figure(row['embedded_question_s'])} | {was(before, row, 'flower_question_s')} | "
        f"{figure(row['flower_question_s'])} | {GOALS.get(row['sites'], '')} | {row['requests']:.1f} | "
        f"{was(before, row, 'link_answer_s')} | {row['link_answer_s']:.3f} | {slowed(row)} |"
        for row in rows
    ]
    lines += [
        "",
        "| sites | MB in a message | seconds per MB and site: embedded | Flower | Flower ÷ embedded | "
        "processors busy when nothing happens | MB of memory in all |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['sites']}{mark} | {figure(row['MB'])} | {figure(row['embedded_MB_s'])} | "
        f"{figure(row['flower_MB_s'])} | {figure(row['MB_ratio'])} | {row['idle_processors']:.2f} | "
        f"{row['megabytes']:,} |"
        for mark, row in [("", row) for row in rows] + [(", before", row) for row in before.values()]
        if "MB" in row
    ]
    settings = results.get("settings", {})
    lines += ["", *NOTES[0], "", *said_of_rows(rows)]
    lines += ["| two sites | seconds per question | requests an answer | SuperLink's CPU s an answer | slowdown |"]
    lines += ["|---|---|---|---|---|"]
    for name in VARIANTS:
        row = settings.get(name)
        lines += [
            f"| {name} | {row['flower_question_s']:.2f} | {row['requests']:.1f} | {row['link_answer_s']:.3f} | "
            f"{slowed(row)} |"
            if row
            else f"| {name} | not measured yet | | | |"
        ]
    return "\n".join([*lines, "", *NOTES[1], "", *NOTES[2], ""])


def slowed(row: dict[str, Any]) -> str:
    """Return the slowdown of a row, where it was measured."""
    return f"{row['slowdown']:.1f}" if row.get("slowdown") else "not measured"


def was(before: dict[str, Any], row: dict[str, Any], key: str) -> str:
    """Return what was measured before polls were held, with as many sites."""
    return figure(before[str(row["sites"])][key]) if str(row["sites"]) in before else "–"


def said_of_rows(rows: list[dict[str, Any]]) -> list[str]:
    """Say what else was measured: whether the models were equal, and how busy the machine was."""
    same = (
        "was the same, byte for byte, in every row" if all(row["same_model"] for row in rows) else "**differed**"
    )
    runs = ", ".join(f"{row['runs']} with {row['sites']} sites" for row in rows)
    load = ", ".join(f"{row['load_before']:.1f}" for row in rows)
    found = [f"The model {same}. Best of so many runs: {runs}. Load of the"]
    found += [f"machine before each row, with the sites that had just started: {load}.", ""]
    found[2:2] = [f"{row['sites']} sites: {row['note']}." for row in rows if "note" in row]
    missing = [n for n in (2, 8, 10, 50) if n not in {row["sites"] for row in rows}]
    if missing:
        found[2:2] = [f"**Not measured yet: {', '.join(map(str, missing))} sites.**"]
    return found


HEAD = """\
# What the engines cost

Made by `python benchmarks/engines.py` on one machine with two processors, on which the coordinator and all sites
ran: with 50 sites the processors are the limit, which 50 machines would not have. *Before*: while everybody polled,
with the SuperLink's state in its database (requests an answer then: 22 to 29). *Slowdown*: how many seconds a
second of processor time took while it was measured, because of other work on the machine; seconds per question are
to be read with it, requests much less so. Processor time, too, is more when others use the machine:
two sites took 0.035, 0.050 and 0.031 s an answer in three measurements, the last of which is in the table.
""".splitlines()
TABLE_HEAD = [
    "",
    "| sites | seconds per question: embedded | Flower, before | Flower | goal | requests an answer | "
    "SuperLink's CPU s an answer, before | now | slowdown |",
    "|---|---|---|---|---|---|---|---|---|",
]
NOTES = (
    """\
A question by Flower takes much longer than by the embedded engine, whatever the question is. That is
why fedgeom's methods ask few questions and send all that a step needs at once. "Per MB" is the extra time for each MB
that every site gets or gives in a question.
""".splitlines(),
    """\
By itself Flower looks for work at intervals (the node asks the SuperLink every 3 s, an executor asks the node, the
node looks for the answer, the coordinator for answers), takes a message apart into three parts that travel in a
request each, and starts a program per question. What fedgeom does instead, each as a row of
`fedgeom.engines.flower.patch_table` that a test holds the installed Flower to:

- **Polls are held** (`message_layer`, in front of Flower's own application, which is asked first and lets in whom
  it lets in): a poll that found nothing waits, without a thread, until a message for it has come, at most 20 s, one
  per node. Flower's own nodes and grids, which ask for nothing of the kind, are answered as ever.
- **Small parts travel with their message** (`attachments`): up to 4 MB, in protobuf fields that Flower skips.
  Larger ones go one by one. A question and its answer are then four requests, two of which all sites share; the
  rest are heartbeats and looks at who is there.
- **A site process stays** (`answerer`): the node hands questions to it through a pipe, and each is answered by a
  fork of it. No port is open at a site any more.
- **The SuperLink's state is in memory**: a request costs it 6 instead of 11 ms. What must outlive it is in our own
  files.
- **Requests take a short way** (`short_way`): past Flower's layers that look after another part of its port, and would
  wrap each request only to pass it on. Who a node is, is asked as ever.
- **The other layers need no task each** (`direct_layer`) for requests that are answered in one piece: the layers' own
  code is called as before, without a task and a stream around it, a quarter of a millisecond less for each.
- **What only has to be returned needs no thread** (`quick_calls`): the parsed request, the state, the comparison of
  version numbers. Signatures and tokens are checked, and requests answered, in threads as before.
- **Searches for garbage leave out** what was there when the SuperLink began to serve: a thorough one took 0.09 s.

The last three together, two sites, the old and the new code in turns while other programs ran: 0.063 and 0.074 s of
the SuperLink's processor an answer before, 0.042 and 0.043 after. The table had 0.054 and 0.053 for 2 and 8 sites.
A connection to the SuperLink is kept between requests (three TLS handshakes a run, not one a request), and a
SuperLink that nobody asks anything takes 0.01 of a processor, which is in these figures.
""".splitlines(),
    """\
### What another message system would bring (`python benchmarks/grpc_link.py`)

gRPC alone: each site calls out once, keeps one stream open, and questions and answers go over it; TLS with
certificates on both sides, every party a process of its own, on a machine with a load of 12.
[Results](../benchmarks/results/grpc_link.json).

| sites | bytes of question and answer | seconds a question | coordinator's processor, an answer | requests an answer |
|---|---|---|---|---|
| 2 | 1 kB | 0.001 | 0.1 ms | none: the stream stays |
| 2 | 1 MB | 0.03 | 1.9 ms | |
| 8 | 1 kB | 0.02 | 0.2 ms | |
| 8 | 1 MB | 0.05 | 1.8 ms | |

So a second engine over gRPC would carry a question some ten times faster than Flower's HTTP interface with held
polls, at a hundredth of its processor time. It is a measurement, not an engine: admission, journals, resuming, the
filter in front of the server and the fault cells of [faults.md](faults.md) would have to be shown for it anew. And by
now much of a question's time at a site is not the carrying: a fork, and files that must be on the disk before an
answer leaves.
""".splitlines(),
)


NATS_GOALS = {2: 0.025, 10: 0.080, 100: 1.0, "MB_s": 60.0, "server": 0.001}
"""The most seconds a question may take, by the number of sites; the least MB a second; the most CPU s an answer."""
NATS_RUNS = 5
LONG_ANSWER = 80_000_000

LONG_SITE = """
import asyncio, sys
from pathlib import Path
from fedgeom.engines.answerer import Answerer
from fedgeom.engines.nats.link import Endpoint
from fedgeom.engines.nats.site import SiteLink
name, address, seed, ca, program = sys.argv[1:]
ask = Answerer([sys.executable, "-c", program])
asyncio.run(SiteLink(name, Endpoint(address, seed, Path(ca)), ask, largest=2**20).run())
"""
LONG_ANSWERER = """
from fedgeom.engines.answerer import serve
from fedgeom.engines.nats.site import answer_with
serve(answer_with(lambda question: bytes(int(question))))
"""
"""Sites that answer with as many bytes as the question says, in forks, as all sites do."""


def nats_questions(n: int) -> dict[str, Any]:
    """Measure runs by NATS with so many sites, all of them whole deployments."""
    _, expected = embedded(n, 2)
    row: dict[str, Any] = {"sites": n, "runs": NATS_RUNS, "load_before": os.getloadavg()[0]}
    seconds: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Federation(Path(folder), make_sites(n, 2), engine="nats") as there,
    ):
        for site in there.sites.values():
            text = site.config_file.read_text(encoding="utf-8")
            site.config_file.write_text(text.replace("min_cohort = 3", "min_cohort = 2"), encoding="utf-8")
        there.start_coordinator()
        names = list(there.sites)
        for first in range(0, n, AT_ONCE):
            for name in names[first : first + AT_ONCE]:
                there.start_site(name)
            there.until(lambda some=names[: first + AT_ONCE]: all(map(there.connected, some)))
        with NatsLink(there.coordinator.endpoint()) as link:
            there.until(lambda: len(link.look(names)) == n)
            for run in range(NATS_RUNS + 1):  # the first one imports what the others find imported
                before = processor_seconds(there, "nats-server")
                watch, model = nats_run(there, link, names, Path(folder) / f"transcript-{run}")
                if run:
                    seconds += [took for kind, took in watch.items() if kind not in LARGE]
                    row["server_answer_s"] = (processor_seconds(there, "nats-server") - before) / (n * len(watch))
        row["same_model"] = model == expected
        row["slowdown"] = slowdown()
        row["megabytes"] = round(megabytes_used(there))
    row["seconds"] = statistics.median(seconds)
    row["worst_s"] = max(seconds)
    row["goal"] = NATS_GOALS.get(n)
    return row


def nats_run(
    there: Federation, link: NatsLink, names: list[str], transcript: Path
) -> tuple[dict[str, float], bytes]:
    """Hold one conversation in this process, as the coordinator's own process does."""
    watch = Watch()

    def listen(event: Event) -> None:
        watch.event(event.step, event.kind, event.state)

    engine = NatsEngine(link, names, deadline=LONGEST)
    run = Session(METHOD, os.urandom(32), 0, there.coordinator.roster(), None, transcript, listen)
    model, _ = run.conduct(engine)
    return watch.seconds(), model.to_bytes()


def nats_long(n: int) -> dict[str, Any]:
    """Measure long answers of sites that have nothing to compute."""
    names = [f"site-{k}" for k in range(n)]
    row: dict[str, Any] = {"sites": n, "MB": LONG_ANSWER / 1e6, "goal_MB_s": NATS_GOALS["MB_s"]}
    sites = []
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder), names) as server:
        try:
            for name in names:
                where = server.endpoint(name)
                given = [name, where.address, where.seed, str(where.certificate), LONG_ANSWERER]
                sites.append(subprocess.Popen([sys.executable, "-c", LONG_SITE, *given]))
            with NatsLink(server.endpoint("coordinator")) as link:
                until(lambda: len(link.look(names)) == n)
                engine = NatsEngine(link, names, deadline=LONGEST)
                list(engine.deliver(dict.fromkeys(names, b"1")))
                used = cpu_of(server.pid)
                began = time.perf_counter()
                lengths = [len(answer) for _, answer in engine.deliver(dict.fromkeys(names, b"%d" % LONG_ANSWER))]
                row["seconds"] = time.perf_counter() - began
                row["server_MB_s"] = (cpu_of(server.pid) - used) / (n * row["MB"])
                row["server_megabytes"] = round(memory_of(server.pid) / 2**20)
        finally:
            for site in sites:
                site.kill()
                site.wait()
    if lengths != [LONG_ANSWER] * n:
        raise RuntimeError(f"the answers have {lengths} bytes")
    row["MB_s"] = n * row["MB"] / row["seconds"]
    row["slowdown"] = slowdown()
    return row


def cpu_of(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def nats_lines(rows: dict[str, Any], long: dict[str, Any]) -> list[str]:
    """Return the part of the page about NATS."""
    lines = ["## NATS", "", "| sites | seconds a question | worst | goal | server's CPU ms an answer | slowdown |"]
    lines += ["|---|---|---|---|---|---|"]
    for row in sorted(rows.values(), key=lambda row: int(row["sites"])):
        lines.append(
            f"| {row['sites']} | {figure(row['seconds'])} | {figure(row['worst_s'])} | {row['goal'] or ''} | "
            f"{1000 * row['server_answer_s']:.2f} | {slowed(row)} |"
        )
    lines += ["", "| sites | MB an answer | seconds | MB a second | goal | server's memory, MB | slowdown |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for row in sorted(long.values(), key=lambda row: int(row["sites"])):
        lines.append(
            f"| {row['sites']} | {row['MB']:.0f} | {figure(row['seconds'])} | {row['MB_s']:.0f} | "
            f"{row['goal_MB_s']:.0f} | {row['server_megabytes']} | {slowed(row)} |"
        )
    return [*lines, "", "## Flower", ""] if rows else []


def main() -> None:
    """Measure and write."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--small", action="store_true", help="no large messages")
    parser.add_argument("--table", action="store_true", help="only write the page")
    parser.add_argument("--only", choices=["nats", "sites", "settings"])
    parser.add_argument("--sites", type=int, action="append")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}

    def keep(part: str, name: str, row: dict[str, Any]) -> None:
        results.setdefault(part, {})[name] = row
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(name, json.dumps(row), flush=True)

    if not options.table:
        if options.only in (None, "nats"):
            for n in options.sites or ([2, 10] if options.quick else [2, 10, 100]):
                keep("nats", str(n), nats_questions(n))
            for n in () if options.small else [2] if options.quick else [2, 10]:
                keep("nats_long", str(n), nats_long(n))
        if options.only == "sites" or not (options.only or options.quick):
            for n in options.sites or [2, 8, 10, 50]:
                save = functools.partial(keep, "sites", str(n))
                save(measure(n, large=not options.small, save=save))
        if options.only == "settings" or not (options.only or options.quick):
            for name, variant in VARIANTS.items():
                done = results.get("sites", {}).get("2") if variant == Variant() else None
                keep("settings", name, done or measure(2, variant, large=False))
    PAGE.write_text(page(results), encoding="utf-8")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

"""What carrying questions by NATS costs, beside the embedded engine and an unpatched Flower.

    python benchmarks/engines.py                     # everything: half an hour
    python benchmarks/engines.py --quick             # NATS with 2 and 10 sites: two minutes
    python benchmarks/engines.py --only nats|long|flower
    python benchmarks/engines.py --sites 10          # this number of sites only
    python benchmarks/engines.py --json              # the last line is one JSON object

A coordinator and the sites are processes on loopback, with TLS and a key for each site, all on this machine. The run is
one of `Moments` with the classes agreed; rows with two columns make messages of about a kilobyte. Times are wall-clock
seconds from the moment a question is asked to the moment its last answer is in, the whole way: the site's answering
process, its journal on the disk, the coordinator's transcript; the median over the questions of five runs. Long answers
come from sites that have nothing to compute. Flower is measured as it is, without TLS, by `examples/flower-app`: the
median over the questions of one run, read off the run's events. Results go to benchmarks/results/engines.json, the
tables to docs/engines.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.deploy.deployment import Federation  # noqa: E402
from tests.engines.flower.federation import FlowerFederation  # noqa: E402
from tests.engines.nats.carrying import memory_of, running_server  # noqa: E402
from tests.waiting import until  # noqa: E402

import fedgeom  # noqa: E402
from fedgeom.data.sites import SiteData  # noqa: E402
from fedgeom.engines.nats.engine import NatsEngine, NatsLink  # noqa: E402
from fedgeom.federation.coordinator import Event  # noqa: E402
from fedgeom.federation.session import Session  # noqa: E402

RESULTS = HERE / "results" / "engines.json"
PAGE = HERE.parent / "docs" / "engines.md"
METHOD = fedgeom.Moments(space="euclidean", rule="centroid", classes=("no", "yes"))
SETTINGS = 'method = "moments"\nwait = 600\ndeadline = 900\nmin_sites = {n}\n[parameters]\nspace = "euclidean"\n'
SETTINGS += 'rule = "centroid"\nclasses = ["no", "yes"]\n'
LONGEST = 1200.0
AT_ONCE = 4
"""How many sites start at the same time."""
SITE_MEGABYTES = 300
"""What a site's processes need at most."""
FORKED_MEGABYTES = 100
"""And where they share what they have imported."""


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


def embedded(n: int, columns: int = 2) -> tuple[dict[str, float], bytes]:
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


def need_memory(n: int, each: int = SITE_MEGABYTES) -> None:
    """Refuse to start more sites than there is memory for."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 1024
    if free < n * each:
        sys.exit(f"{n} sites need {n * each:,} MB of memory; {free:,.0f} MB are free")


def slowdown() -> float:
    """Return how many seconds a second of processor time takes just now."""
    began = time.perf_counter()
    used = time.process_time()
    while time.process_time() < used + 0.3:
        pass
    return (time.perf_counter() - began) / (time.process_time() - used)


def figure(value: float) -> str:
    """Write a figure with as many digits as it is good for."""
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def slowed(row: dict[str, Any]) -> str:
    """Return the slowdown of a row, where it was measured."""
    return f"{row['slowdown']:.1f}" if row.get("slowdown") else "not measured"


def flower_questions(n: int) -> dict[str, Any]:
    """Measure one run by Flower as it is."""
    need_memory(n)
    _, expected = embedded(n)
    row: dict[str, Any] = {"sites": n, "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder, Federation(Path(folder), make_sites(n, 2)) as there:
        loosen_cohort(there)
        with FlowerFederation(there) as flower:
            used = 0.0
            job = flower.run(SETTINGS.format(n=n))
            watch = Watch()
            seen = 0
            until(lambda: there.events(job) or there.over(job))
            used = processor_seconds(there)
            while True:
                over = there.over(job)
                for event in there.events(job)[seen:]:
                    watch.event(event["step"], event["kind"], event["state"])
                    seen += 1
                if over:
                    break
                time.sleep(0.02)
            row["answer_cpu_s"] = (processor_seconds(there) - used) / (n * len(watch.seconds()))
        if there.status(job)["state"] != "finished":
            raise RuntimeError(f"{there.status(job)}")
        row["same_model"] = (job.run_folder / "model.safetensors").read_bytes() == expected
        row["slowdown"] = slowdown()
    row["seconds"] = statistics.median(watch.seconds().values())
    row["worst_s"] = max(watch.seconds().values())
    return row


def loosen_cohort(there: Federation) -> None:
    """Let two sites be enough."""
    for site in there.sites.values():
        text = site.config_file.read_text(encoding="utf-8")
        site.config_file.write_text(text.replace("min_cohort = 3", "min_cohort = 2"), encoding="utf-8")


NATS_GOALS = {2: 0.025, 10: 0.080, 100: 1.0, "MB_s": 60.0, "server": 0.001}
"""The most seconds a question may take, by the number of sites; the least MB a second; the most CPU s an answer."""
NATS_RUNS = 5
LONG_ANSWER = 80_000_000

LONG_SITE = """
import asyncio, sys
from pathlib import Path
from fedgeom.engines.answerer import Answerer
from fedgeom.engines.nats.link import Endpoint, ServerAddress
from fedgeom.engines.nats.site import SiteLink
name, address, seed, ca, program = sys.argv[1:]
ask = Answerer([sys.executable, "-c", program])
asyncio.run(SiteLink(name, Endpoint(ServerAddress.read_all(address), seed, Path(ca)), ask, largest=2**20).run())
"""
MOST_STARTED = 20
"""With more sites, all are forks of one program, or the machine's memory would hold the same libraries for each."""
FORKED_SITES = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from fedgeom.deploy import nats_site, programs
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.answerer import Answerer, serve
from fedgeom.engines.nats.site import answer_with

class Forked(Answerer):
    def __init__(self, command):
        folder = SiteFolder(Path(command[-1]))
        theirs, to_it = os.pipe()
        from_it, ours = os.pipe()
        if os.fork() == 0:
            os.dup2(theirs, 0)
            os.dup2(ours, 1)
            for one in (theirs, ours, to_it, from_it):
                os.close(one)
            answer = answer_with(lambda request: nats_site.answer(folder, request))
            serve(answer, lasts=lambda: nats_site.files_state(folder))
            os._exit(0)
        os.close(theirs)
        os.close(ours)
        stdin, stdout = os.fdopen(to_it, "wb"), os.fdopen(from_it, "rb")
        self._program = SimpleNamespace(stdin=stdin, stdout=stdout, wait=lambda: 0)

programs.import_ahead()
nats_site.Answerer = Forked
for path in sorted(Path(sys.argv[1]).glob("site-*/site.toml")):
    if os.fork() == 0:
        nats_site.connect(SiteFolder(path.parent))
        os._exit(0)
while True:
    os.wait()
"""
"""Sites whose processes are those of a deployment, but for who starts them."""
LONG_ANSWERER = """
from fedgeom.engines.answerer import serve
from fedgeom.engines.nats.site import answer_with
serve(answer_with(lambda question: bytes(int(question))))
"""
"""Sites that answer with as many bytes as the question says, in forks, as all sites do."""


def nats_questions(n: int) -> dict[str, Any]:
    """Measure runs by NATS with so many sites, all of them whole deployments."""
    forked = n > MOST_STARTED
    runs = 2 if forked else NATS_RUNS
    need_memory(n, FORKED_MEGABYTES if forked else SITE_MEGABYTES)
    _, expected = embedded(n)
    row: dict[str, Any] = {"sites": n, "runs": runs, "load_before": os.getloadavg()[0]}
    seconds: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Federation(Path(folder), make_sites(n, 2)) as there,
        ExitStack() as started,
    ):
        loosen_cohort(there)
        there.start_coordinator()
        names = list(there.sites)
        if forked:
            command = [sys.executable, "-c", FORKED_SITES, folder]
            sites = subprocess.Popen(command, start_new_session=True)
            started.callback(lambda: (os.killpg(sites.pid, signal.SIGKILL), sites.wait()))
        for first in range(0, 0 if forked else n, AT_ONCE):
            for name in names[first : first + AT_ONCE]:
                there.start_site(name)
            there.until(lambda some=names[: first + AT_ONCE]: all(map(there.connected, some)))
        with NatsLink(there.coordinator.endpoint()) as link:
            there.until(lambda: len(link.look(names)) == n)
            for run in range(runs + 1):  # the first one imports what the others find imported
                if run == 1:
                    before = [
                        processor_seconds(there, "nats-server"),
                        processor_seconds(there) + time.process_time(),
                    ]
                watch, model = nats_run(there, link, names, Path(folder) / f"transcript-{run}")
                seconds += watch.values() if run else ()
            after = [processor_seconds(there, "nats-server"), processor_seconds(there) + time.process_time()]
            row["server_answer_s"], row["answer_cpu_s"] = (
                (now - then) / (n * len(seconds)) for then, now in zip(before, after, strict=True)
            )
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
                given = [name, str(where.servers[0]), where.seed, str(where.certificate), LONG_ANSWERER]
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


def page(results: dict[str, Any]) -> str:
    """Return the page with the tables."""
    lines = [
        *HEAD,
        "| sites | seconds a question | worst | goal | CPU ms an answer | of the server | slowdown | load before |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for row in by_sites(results, "nats"):
        lines.append(
            f"| {row['sites']} | {figure(row['seconds'])} | {figure(row['worst_s'])} | {row['goal'] or ''} | "
            f"{1000 * row['answer_cpu_s']:.1f} | {1000 * row['server_answer_s']:.2f} | {slowed(row)} | "
            f"{row['load_before']:.1f} |"
        )
    if any(row["sites"] > MOST_STARTED for row in by_sites(results, "nats")):
        lines += ["", f"Of more than {MOST_STARTED} sites the processes are forks of one, to fit into the memory."]
    missing = [str(n) for n in (2, 10, 100) if str(n) not in results.get("nats", {})]
    if missing:
        lines += ["", f"**Not measured: {', '.join(missing)} sites.**"]
    lines += ["", "| sites | MB an answer | seconds | MB a second | goal | server's memory, MB | slowdown |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for row in by_sites(results, "nats_long"):
        lines.append(
            f"| {row['sites']} | {row['MB']:.0f} | {figure(row['seconds'])} | {row['MB_s']:.0f} | "
            f"{row['goal_MB_s']:.0f} | {row['server_megabytes']} | {slowed(row)} |"
        )
    rows = [*by_sites(results, "nats"), *by_sites(results, "flower")]
    same = "was the same, byte for byte, in every row" if all(r["same_model"] for r in rows) else "**differed**"
    lines += ["", f"The model {same}.", "", *FLOWER]
    lines += [
        "| sites | seconds a question | worst | CPU s of all programs an answer | slowdown |",
        "|---|---|---|---|---|",
    ]
    for row in by_sites(results, "flower"):
        lines.append(
            f"| {row['sites']} | {figure(row['seconds'])} | {figure(row['worst_s'])} | "
            f"{figure(row['answer_cpu_s'])} | {slowed(row)} |"
        )
    return "\n".join([*lines, "", *OTHERS, ""])


def by_sites(results: dict[str, Any], part: str) -> list[dict[str, Any]]:
    """Return the rows of a part, those with few sites first."""
    return sorted(results.get(part, {}).values(), key=lambda row: int(row["sites"]))


HEAD = """\
# What the engines cost

Made by `python benchmarks/engines.py` on one machine with two processors, on which the coordinator and all sites ran:
with many sites the processors are the limit, which as many machines would not have. *Slowdown*: how many seconds a
second of processor time took while it was measured, because of other work on the machine; seconds are to be read with
it and with the load, processor time much less so.

## NATS

The whole way of a question: coordinator, server, the site's answering process, its journal on the disk, the
coordinator's transcript. Processor time is that of all programs together.
""".splitlines()
HEAD.append("")
FLOWER = """\
## Flower

Flower as it is, by its public interface ([flower.md](flower.md)). It looks for work at intervals: the node asks the
SuperLink, an executor asks the node, the coordinator asks for answers; and a program is started for each question.
""".splitlines()
FLOWER.append("")
OTHERS = """\
With 23 of its private symbols replaced, which fedgeom does not do, Flower 1.41 takes 0.17 s with 2 sites and 0.66 s
with 8, and 0.03 s of the SuperLink's processor an answer.
""".splitlines()


def main() -> None:
    """Measure and write."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true", help="only write the page")
    parser.add_argument("--only", choices=["nats", "long", "flower"])
    parser.add_argument("--sites", type=int, action="append")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}

    def keep(part: str, row: dict[str, Any]) -> None:
        results.setdefault(part, {})[str(row["sites"])] = row
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(part, json.dumps(row), flush=True)

    if not options.table:
        if options.only in (None, "nats"):
            for n in options.sites or ([2, 10] if options.quick else [2, 10, 100]):
                keep("nats", nats_questions(n))
        if options.only in (None, "long"):
            for n in options.sites or ([2] if options.quick else [2, 10]):
                keep("nats_long", nats_long(n))
        if options.only == "flower" or not (options.only or options.quick):
            for n in options.sites or [2]:
                keep("flower", flower_questions(n))
    PAGE.write_text(page(results), encoding="utf-8")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

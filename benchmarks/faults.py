"""The fault matrix: real processes killed at every point of a run, and what comes of it.

    python benchmarks/faults.py                # every cell that has no result yet; all take more than an hour
    python benchmarks/faults.py --quick        # one cell of each kind
    python benchmarks/faults.py --only CELL    # one cell again, for example coordinator-3
    python benchmarks/faults.py --list         # the cells
    python benchmarks/faults.py --anew         # all cells again
    python benchmarks/faults.py --table        # only write docs/faults.md from what is there
    python benchmarks/faults.py --json         # the last line is one JSON object

A coordinator and four sites run on loopback, with TLS and a key for each site, each in processes of their own; every
cell is one run of `Hulls`. Killed means SIGKILL. What a cell must end with is the model of an undisturbed run in
one process, over the sites whose answers were in: the same numbers to the last bit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.deploy.deployment import Federation, parts  # noqa: E402

import fedgeom  # noqa: E402
from fedgeom.deploy.jobs import Job  # noqa: E402
from fedgeom.federation.record import read_folder  # noqa: E402
from fedgeom.federation.results import lost_in  # noqa: E402

RESULTS = HERE / "results" / "faults.json"
PAGE = HERE.parent / "docs" / "faults.md"
QUESTIONS = (
    "join.hello", "join.meet", "join.share", "hulls.extent", "sum.confirm", "sum.unmask",
    "hulls.encode", "sum.confirm", "sum.unmask", "hulls.take-model",
)  # fmt: skip
VICTIM = "bert"
EPSILON = 0.05
HURRIED = {"wait": 15, "deadline": 60}
"""The killed site does not come back: nobody should wait long."""
PATIENT = {"wait": 120, "deadline": 300}
"""The site or its line comes back: somebody should wait."""
CUT_SECONDS = 60
DISK_MEGABYTES = 64
"""How large the disk of a site is that becomes full."""
LONGEST = 420.0
AT_ONCE = 16
"""How many cells one federation sees: the policy of its sites allows twenty runs a day."""
SLOWLY = """\
import sys

if " answer " in " ".join(sys.orig_argv):
    import time

    import fedgeom.deploy.answers as answering

    answer = answering.answer

    def answer_slowly(*given):
        time.sleep(1)
        return answer(*given)

    answering.answer = answer_slowly
"""
"""What the victim's processes do first: answers take a second, so that one can be caught at it."""


@dataclass(frozen=True)
class Cell:
    """One fault: what happens, when, and to whom."""

    name: str
    fault: str
    when: str
    act: Callable[[Federation, Cell], Ending]
    step: int = 0
    whole: bool = True
    """Whether nobody may be missing in the end: whoever died came back."""


@dataclass
class Ending:
    """What came of a run."""

    job: Job
    how: str = "finished"


def settings(times: Mapping[str, float], only: tuple[str, ...] = ()) -> str:
    """Return the federation file of a cell."""
    lines = ['method = "hulls"', *(f"{key} = {value}" for key, value in times.items())]
    lines += ["[parameters]", f"epsilon = {EPSILON}"]
    return "\n".join([*lines, *(f'[[sites]]\nname = "{name}"' for name in only), ""])


def start(there: Federation, name: str) -> None:
    """Start a site; the victim answers slowly."""
    custom = there.root / "slowly"
    custom.mkdir(exist_ok=True)
    (custom / "sitecustomize.py").write_text(SLOWLY, encoding="utf-8")
    path = os.pathsep.join([str(custom), *filter(None, [os.environ.get("PYTHONPATH")])])
    there.start_site(name, {"PYTHONPATH": path} if name == VICTIM else {})


def reach(there: Federation, job: Job, step: int, state: str) -> None:
    """Wait until the victim was asked a question, or has answered it."""

    def happened() -> bool:
        return any((e["step"], e["site"], e["state"]) == (step, VICTIM, state) for e in there.events(job))

    def over() -> bool:
        return there.status(job)["state"] in ("failed", "finished")

    if not there.until(lambda: happened() or over(), LONGEST, pause=0.02) or not happened():
        raise RuntimeError(f"question {step} was never {state}: {there.status(job)}")


def caught(there: Federation, job: Job, step: int) -> list[int]:
    """Wait for the process in which the victim answers a question, and hold it."""
    reach(there, job, step, "asked")
    new = list[int]()

    def appeared() -> bool:
        new.extend(there.answering(VICTIM))
        return bool(new)

    if not there.until(appeared, 60, pause=0.0):
        raise RuntimeError("no process answered")
    for process in new:
        os.kill(process, signal.SIGSTOP)
    return new


def ended(there: Federation, job: Job, *, resumed: bool = False) -> Ending:
    """Wait for the end; an abort is what it says."""
    status = there.wait(job, LONGEST)
    if status["state"] != "finished":
        return Ending(job, f"{status['state']}: {status.get('detail', '')}"[:300])
    return Ending(job, "resumed, finished" if resumed else "finished")


def site_before_joining(there: Federation, cell: Cell) -> Ending:
    """Kill a site, then submit."""
    there.kill(VICTIM)
    return ended(there, there.submit(settings(HURRIED), name=cell.name))


def site_between(there: Federation, cell: Cell) -> Ending:
    """Kill a site once it has answered a question."""
    job = there.submit(settings(HURRIED), name=cell.name)
    reach(there, job, cell.step, "answered")
    there.kill(VICTIM)
    return ended(there, job)


def site_answering(there: Federation, cell: Cell) -> Ending:
    """Kill a site while it answers."""
    job = there.submit(settings(HURRIED), name=cell.name)
    caught(there, job, cell.step)
    there.kill(VICTIM)
    return ended(there, job)


def answerer(there: Federation, cell: Cell) -> Ending:
    """Kill only the process that answers; the site's connection stays."""
    job = there.submit(settings(PATIENT), name=cell.name)
    for process in caught(there, job, cell.step):
        os.kill(process, signal.SIGKILL)
    return ended(there, job)


def site_returns(there: Federation, cell: Cell) -> Ending:
    """Kill a site while it answers, and start it again at once."""
    job = there.submit(settings(PATIENT), name=cell.name)
    caught(there, job, cell.step)
    there.kill(VICTIM)
    start(there, VICTIM)
    return ended(there, job)


def coordinator(there: Federation, cell: Cell) -> Ending:
    """Kill the process that conducts the run, and resume."""
    job = there.submit(settings(PATIENT), name=cell.name)
    if cell.step:
        reach(there, job, cell.step, "answered")
    elif not there.until(lambda: bool(there.events(job)), LONGEST, pause=0.02):
        raise RuntimeError("nobody joined")
    if not there.kill_conductor(job):
        raise RuntimeError("there was nothing to kill")
    there.resume(job)
    return ended(there, job, resumed=True)


def everything(there: Federation, cell: Cell) -> Ending:
    """Kill everything at the coordinator, start it again, and resume."""
    job = there.submit(settings(PATIENT), name=cell.name)
    reach(there, job, cell.step, "answered")
    there.kill("coordinator")
    there.start_coordinator()
    there.resume(job)
    return ended(there, job, resumed=True)


def server(there: Federation, cell: Cell) -> Ending:
    """Kill the coordinator's server; the coordinator starts it again by itself."""
    job = there.submit(settings(PATIENT), name=cell.name)
    reach(there, job, cell.step, "answered")
    for process in there.servers():
        os.kill(process, signal.SIGKILL)
    return ended(there, job)


def half_open(there: Federation, cell: Cell) -> Ending:
    """Close a site's connection at the coordinator's end only, when the site is asked."""
    job = there.submit(settings(PATIENT), name=cell.name)
    reach(there, job, cell.step, "asked")
    there.lines[VICTIM].halve()
    return ended(there, job)


def disk(there: Federation, cell: Cell) -> Ending:
    """Fill a site's disk when it is asked, and free it again after the run; needs the right to mount one."""
    place = there.sites[VICTIM].path
    aside = there.root / "aside"
    there.kill(VICTIM)
    shutil.move(place, aside)
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(place)], check=True)
    try:
        shutil.copytree(aside, place, dirs_exist_ok=True)
        start(there, VICTIM)
        there.until(lambda: there.connected(VICTIM), 120)
        job = there.submit(settings(HURRIED), name=cell.name)
        reach(there, job, cell.step, "answered")
        with contextlib.suppress(OSError), (place / "filler").open("wb") as file:
            while True:
                file.write(bytes(2**12))
                file.flush()
        ending = ended(there, job)
        (place / "filler").unlink()
        there.kill(VICTIM)
        shutil.rmtree(aside)
        shutil.copytree(place, aside)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()
    shutil.move(aside, place)
    return ending


def network(there: Federation, cell: Cell) -> Ending:
    """Cut a site's line when it is asked."""
    job = there.submit(settings(PATIENT), name=cell.name)
    reach(there, job, cell.step, "asked")
    there.lines[VICTIM].cut()
    time.sleep(CUT_SECONDS)
    there.lines[VICTIM].mend()
    return ended(there, job)


def too_few(there: Federation, cell: Cell) -> Ending:
    """Kill one of only three sites, whose policy asks for three; start it again, and resume."""
    job = there.submit(settings(HURRIED, ("anna", VICTIM, "carl")), name=cell.name)
    reach(there, job, cell.step, "answered")
    there.kill(VICTIM)
    first = ended(there, job)
    if first.how == "finished":
        return first
    start(there, VICTIM)
    there.until(lambda: there.connected(VICTIM), 90)
    there.resume(job)
    last = ended(there, job, resumed=True)
    if last.how == "resumed, finished":
        last.how = "aborted, resumed, finished"
    return last


def between(step: int) -> str:
    """Say between which questions."""
    first = f"{step}. {QUESTIONS[step - 1]}" if step else "the sites' coming"
    return f"between {first} and {step + 1}. {QUESTIONS[step]}"


def cells() -> list[Cell]:
    """Return the whole matrix."""
    at = [f"while answering {k + 1}. {kind}" for k, kind in enumerate(QUESTIONS)]
    asked = [f"when asked {k + 1}. {kind}" for k, kind in enumerate(QUESTIONS)]
    few = "one of three sites killed (policy: at least three), started again later"
    back = "site killed, started again at once"
    cut = f"site's line cut for {CUT_SECONDS} s"
    alone = "server killed, the coordinator starts it again"
    half = "site's connection ends, and the site is not told"
    whole = "all programs of the coordinator killed, started again"
    found = [Cell("site-0", "site killed", "before joining", site_before_joining, whole=False)]
    found += [Cell(f"site-{k}", "site killed", between(k), site_between, k, False) for k in range(1, 10)]
    found += [Cell(f"answering-{k}", "site killed", at[k - 1], site_answering, k, False) for k in range(1, 11)]
    found += [Cell(f"returns-{k}", back, at[k - 1], site_returns, k) for k in (1, 3, 4, 7, 10)]
    found += [Cell(f"answerer-{k}", "answering process killed", at[k - 1], answerer, k) for k in (1, 4, 7, 10)]
    found += [Cell(f"coordinator-{k}", "coordinator killed", between(k), coordinator, k) for k in range(10)]
    found += [Cell(f"everything-{k}", whole, between(k), everything, k) for k in (1, 4, 7, 9)]
    found += [Cell(f"network-{k}", cut, asked[k - 1], network, k) for k in (1, 4, 5, 7, 9)]
    # From the last masked vector on, the other two can unmask the sum of all three: nothing is aborted.
    found += [Cell(f"few-{k}", few, between(k), too_few, k, whole=k < 7) for k in range(1, 9)]
    found += [Cell(f"server-{k}", alone, between(k), server, k) for k in (1, 4, 7, 9)]
    found += [Cell(f"half-open-{k}", half, asked[k - 1], half_open, k) for k in (1, 7)]
    found += [Cell(f"disk-{k}", "site's disk full", between(k), disk, k, False) for k in (3, 4, 7)]
    return found


QUICK = (
    "site-0",
    "site-3",
    "answering-7",
    "returns-4",
    "answerer-7",
    "coordinator-4",
    "everything-7",
    "network-7",
    "few-2",
    "server-7",
    "half-open-7",
    "disk-4",
)


def verdict(there: Federation, cell: Cell, ending: Ending) -> dict[str, Any]:
    """Compare a finished run with the undisturbed one over the sites whose answers were in."""
    record = read_folder(ending.job.run_folder)
    lost = sorted(lost_in(record["warnings"]))  # as the run itself says
    names = [name for name in there.data if name in ending.job.names]
    counted = record["metrics"]["sites"]
    inside = names if counted == len(names) else [name for name in names if name not in lost]
    data = [there.data[name] for name in inside]
    bare = fedgeom.run(fedgeom.Hulls(epsilon=EPSILON), data).model
    fixed = fedgeom.run(fedgeom.Hulls(epsilon=EPSILON, radius=record["metrics"]["radius"]), data).model
    saved = (ending.job.run_folder / "model.safetensors").read_bytes()
    model = fedgeom.load_model(ending.job.run_folder / "model.safetensors")
    same = all(
        np.array_equal(getattr(model, part), getattr(fixed, part)) for part in ("normal", "reference", "platt")
    )
    return {
        "lost": lost,
        "sites": counted,
        "of": len(names),
        "same_file": saved == bare.to_bytes(),
        "same_model": same,
        "ok": counted == len(inside)
        and same
        and (saved == bare.to_bytes() or counted < len(names))
        and not (cell.whole and lost),
    }


def prepare(there: Federation) -> None:
    """Have everybody there and connected."""
    if "coordinator" not in there.running:
        there.start_coordinator()
    for name in there.data:
        if name not in there.running:
            start(there, name)
    if not there.until(lambda: all(there.connected(name) for name in there.data), 120):
        raise RuntimeError("not all sites connected")


def run(wanted: list[Cell], results: dict[str, Any], *, say: Callable[[str], None]) -> None:
    """Run cells one after the other, writing down each; a site takes part in so many runs a day only."""
    for first in range(0, len(wanted), AT_ONCE):
        _run(wanted[first : first + AT_ONCE], results, say)


def _run(wanted: list[Cell], results: dict[str, Any], say: Callable[[str], None]) -> None:
    """Run some cells in one federation."""
    with tempfile.TemporaryDirectory() as folder, Federation(Path(folder), parts(4), proxied=[VICTIM]) as there:
        for cell in wanted:
            prepare(there)
            began = time.monotonic()
            try:
                ending = cell.act(there, cell)
                row: dict[str, Any] = {"how": ending.how, "seconds": round(time.monotonic() - began)}
                row |= verdict(there, cell, ending) if ending.how.endswith("finished") else {"ok": False}
            except RuntimeError as error:
                say(f"{cell.name} could not be measured: {error}")
                continue
            finally:
                there.lines[VICTIM].mend()
            results[cell.name] = {"fault": cell.fault, "when": cell.when, **row}
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            say(f"{cell.name}: {row}")


def table(results: dict[str, Any]) -> str:
    """Return the page with the table."""
    lines = [
        "# What happens when something dies",
        "",
        "Made by `python benchmarks/faults.py`: a coordinator and four sites as processes on loopback, with TLS and",
        "a key for each, and one run of `Hulls` (ten questions) per row. Killed means SIGKILL, without warning.",
        "The site that dies takes a second longer for each answer than it needs, or nobody would catch it at one.",
        "*Equal* means that the model is that of an undisturbed run in one process over the sites in the result, to",
        "the last bit; with all sites in it, the model *file* is the same byte for byte. Where whoever died comes",
        "back, a row counts only if nobody is missing in the end.",
        "",
        "| fault | when | how it ended | sites in the result | equal | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for cell in cells():
        row = results.get(cell.name)
        if row is None:
            lines.append(f"| {cell.fault} | {cell.when} | not measured yet | | | |")
            continue
        inside = f"{row['sites']} of {row['of']}" if "sites" in row else ""
        equal = "" if "same_model" not in row else "yes" if row["ok"] else "**no**"
        lines.append(
            f"| {cell.fault} | {cell.when} | {row['how']} | {inside} | {equal} | {row.get('seconds', '')} |"
        )
    measured = [results[cell.name] for cell in cells() if cell.name in results]
    said = [f"{sum(row['ok'] for row in measured)} of {len(measured)} rows ended as they should."]
    return "\n".join([*lines, "", *said, "", *NOTES, ""])


NOTES = """\
How to read it:

- A site that is lost once its masked vector is in stays in the result: the others hold the shares that take its
  masks away. Lost before, it is left out, and the sum is over the rest.
- The server says at once when a site's connection has ended, and both ends of a dead line notice it within 15 s. A site
  then has `wait` seconds to come back, and never more than `deadline` for one answer; when it is back, the question
  is put again. The site answers from what it remembers on its own disk: the same question gets the same answer,
  another one under the same masks is refused.
- When only the process that answers dies, the site says so at once, stays connected, and is asked again. When
  the connection ends for good, the site builds a new one by itself.
- The server keeps nothing. When it dies the coordinator starts it again, the sites connect anew by themselves, and
  whatever was on its way is asked for again.
- An answer that a site cannot write down does not leave: with a full disk a site is lost like one that was killed.
- Tests have what the table has not: members of a cluster killed (`tests/deploy/test_cluster.py`); a part lost on its
  way, a question above the site's limit (`tests/engines/nats/test_engine.py`); a message of a gigabyte, 10,000
  connections (`test_ways.py`).
- A coordinator that died goes on with `fedgeom submit --resume RUN`: the answers that came are in the run's
  transcript, only the rest is asked.
- A site that missed a question and answers such a one again later is not called lost; a warning of the run says
  what it missed.
- A run that stops because too few sites are left reveals nothing. Once all masked vectors of the last sum are in,
  two of three sites can unmask it, so that the run ends well without the third, which has no model then. When the
  lost sites are back, `fedgeom submit --resume RUN` asks them again, from where they were lost.""".splitlines()


def main() -> None:
    """Measure what is missing and write the page."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and every process that was started is stopped
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--only", action="append", choices=[cell.name for cell in cells()])
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{cell.name:16} {cell.fault}, {cell.when}" for cell in cells()))
        return
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if not options.table:
        if options.anew:
            results.clear()
        chosen = options.only or (
            QUICK if options.quick else [cell.name for cell in cells() if cell.name not in results]
        )
        run([cell for cell in cells() if cell.name in chosen], results, say=lambda text: print(text, flush=True))
    PAGE.write_text(table(results), encoding="utf-8")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

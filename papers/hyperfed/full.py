"""One column of HyperFed's Tables 1 and 2 at full size: all of CIFAR-10, 100 rounds of 5 epochs; hours for each row.

    python papers/hyperfed/full.py                  # go on with the first row that is not finished
    python papers/hyperfed/full.py --only FedAvg    # one row
    python papers/hyperfed/full.py --report         # rebuild results/full.{json,md} from the finished rows
    python papers/hyperfed/full.py --quick --json   # two rounds with 600 images, seconds; writes nothing

50,000 images of 32 × 32 pixels at ten sites, dealt by Dirichlet's law with α = 0.5 (then 0.1); of a site's images a
quarter is held out for its own model. All rows have LeNet with GroupNorm and an embedding of 20, batch 128 and the
paper's rate of 0.3: about 14,600 steps a site, where the paper's 20 sites take about 7,500. One seed. "global" is the
accuracy of the joint model on the 10,000 official test images, "personal" that of the sites' own models on what they
hold out. Rows that need sums alone run through the secure protocol; HyperFed as printed starts from the sites'
numbers of rows, so updates are shown. A row that is broken off goes on with the round it had reached: its run is kept
below runs/ until it is finished.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fedgeom
from fedgeom.methods.catalogue import read_model

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, parser, percent, print_json, table
from papers.hyperfed import published, rows
from papers.hyperfed.lines import Lines
from papers.hyperfed.split import Split, draw
from papers.hyperfed.table import figures

RESULTS = Results(Path(__file__).resolve().parent / "results")
ALPHAS, SEED, ROUNDS, SITES, IMAGES = (0.5, 0.1), 0, 100, 10, 50_000
EVERY = 5
"""Of so many rounds one is on the learning curve."""
PRINTED, CODED = "HyperFed, as printed", "HyperFed, authors' code"
MAKERS: dict[str, Callable[..., Any]] = {
    "FedAvg": fedgeom.FedAvg,
    PRINTED: partial(fedgeom.HyperFed.published, secure=False),
    "SphereFed": fedgeom.SphereFed,
    CODED: partial(fedgeom.HyperFed.authors_code, secure=False),
    rows.CHANGED: fedgeom.HyperFed.measured,
    rows.MOMENTUM: rows.MAKERS[rows.MOMENTUM],
}
PAPER = {PRINTED: "HyperFed", CODED: "HyperFed"}
"""Which row of the paper's tables a row is compared with, where the name is another."""


def rule(row: str, data: Split, rounds: int) -> Any:
    """Return a row's method."""
    usual = rows.effort("lenet", rows.PAPER, rounds)
    own = {"network": rows.NETWORKS["lenet"], "shape": data.shape, "scale": "joint"}
    return MAKERS[row](**usual, **own, personal=rows.FineTuned(rows.STEPS, None))


def compute(row: str, alpha: float, folder: Path, rounds: int = ROUNDS, images: int = IMAGES) -> dict[str, Any]:
    """Train a row, or go on with it, and return its figures with the learning curve."""
    data = draw("cifar-10", alpha, SEED, rows=images, sites=SITES)
    began = time.process_time()
    run = fedgeom.run(rule(row, data, rounds), data.sites, SEED, record=folder, resumable=True, resume=True)
    found = figures(run.model, run.local, data, test=True)
    curve = {}
    for path in sorted((folder / "rounds").iterdir())[EVERY - 1 :: EVERY]:
        model: Any = read_model(path.read_bytes())
        curve[int(path.stem)] = round(percent(model.predict(data.X), data.y), 2)
    steps = sum(rows.EPOCHS * -(-len(site) // rows.BATCH) for site in data.sites) * rounds // len(data.sites)
    facts = {"row": row, "alpha": alpha, "rounds": rounds, "images": images, "steps a site": steps}
    return facts | found | {"curve": curve, "seconds": round(time.process_time() - began)}


def page(lines: Sequence[dict[str, Any]]) -> str:
    """Return the finished rows as a page."""
    text = ["# HyperFed at full size", "", (__doc__ or "").split("\n\n")[-1].strip(), ""]
    shown = []
    for line in sorted(lines, key=lambda line: (ALPHAS.index(line["alpha"]), -line["global"])):
        name = PAPER.get(line["row"], line["row"])
        theirs = [published.value(kind, name, "cifar-10", line["alpha"]) for kind in ("global", "personal")]
        brackets = ["" if one is None else f" ({one:.1f})" for one in theirs]
        best = max(line["curve"].values(), default=line["global"])
        shown.append(
            (
                f"{line['alpha']:g}",
                line["row"],
                f"{line['global']:.1f}{brackets[0]}",
                f"{line['personal']:.1f}{brackets[1]}",
                f"{best:.1f}",
                str(line["steps a site"]),
            )
        )
    head = ["α", "row", "G-FL (paper)", "P-FL (paper)", "best on the curve", "steps a site"]
    return "\n".join([*text, *table(head, shown), ""])


def write(cells: Lines) -> dict[str, Any]:
    """Write the finished rows."""
    RESULTS.write("full", cells.lines, lambda lines: page(list(lines.values())))
    return cells.lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what is missing, then report; or one of the two."""
    made = parser(__doc__, MAKERS)
    made.add_argument(
        "--report", action="store_true", help="compute nothing; rebuild the tables from finished rows"
    )
    made.add_argument(
        "--runs", type=Path, default=Path("runs/hyperfed-full"), help="where unfinished runs are kept"
    )
    options = made.parse_args(arguments)
    if options.quick:
        folder = options.runs / "quick"
        shutil.rmtree(folder, ignore_errors=True)
        print_json(options, {"FedAvg": compute("FedAvg", 0.5, folder, rounds=EVERY, images=600)})
        shutil.rmtree(folder)
        return
    cells = Lines(RESULTS.folder / "full.jsonl")
    for alpha in () if options.report else ALPHAS:
        for row in options.only:
            folder = options.runs / f"{row} {alpha:g}".replace(",", "").replace(" ", "-")
            cells.go_on({f"{row} | {alpha:g}": partial(compute, row, alpha, folder)})
            write(cells)
    print_json(options, write(cells))


if __name__ == "__main__":
    main()

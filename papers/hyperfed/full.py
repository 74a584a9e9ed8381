"""One column of HyperFed's Tables 1 and 2 at full size: all of CIFAR-10, 100 rounds of 5 epochs; hours for each row.

    python papers/hyperfed/full.py                  # go on with the first row that is not finished
    python papers/hyperfed/full.py --only FedAvg    # one row
    python papers/hyperfed/full.py --until 25       # every row to its 25th round of 100, then stop
    python papers/hyperfed/full.py --report         # rebuild results/full.{json,md} from the rows that are there
    python papers/hyperfed/full.py --quick --json   # two rounds with 600 images, seconds; writes nothing

50,000 images of 32 × 32 pixels at ten sites, dealt by Dirichlet's law with α = 0.5 (then 0.1); of a site's images a
quarter is held out for its own model. All rows have LeNet with GroupNorm and an embedding of 20, batch 128 and the
paper's rate of 0.3: about 14,600 steps a site, where the paper's 20 sites take about 7,500. One seed. "global" is the
accuracy of the joint model on the 10,000 official test images, "personal" that of the sites' own models on what they
hold out. Rows that need sums alone run through the secure protocol; HyperFed as printed starts from the sites'
numbers of rows, so updates are shown. A row that is broken off goes on with the round it had reached: its run is kept
below runs/ until it is finished. Such a row has a learning curve and no figures yet; "steps a site" says how far it is.
"""

from __future__ import annotations

import shutil
import sys
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


class BrokenOffError(Exception):
    """A row has come to the round at which it is to be left for now."""


def compute(
    row: str, alpha: float, folder: Path, rounds: int = ROUNDS, images: int = IMAGES, until: int | None = None
) -> dict[str, Any]:
    """Train a row, or go on with it, up to round ``until`` or the end; return its figures and learning curve."""
    data = draw("cifar-10", alpha, SEED, rows=images, sites=SITES)
    saved = folder / "rounds"

    def look(event: Any) -> None:
        if until is not None and saved.is_dir() and len(list(saved.iterdir())) >= until:
            raise BrokenOffError

    found: dict[str, Any] = {}
    try:
        run = fedgeom.run(
            rule(row, data, rounds), data.sites, SEED, record=folder, resumable=True, resume=True, watch=look
        )
        found = figures(run.model, run.local, data, test=True)
    except BrokenOffError:
        pass
    paths = sorted(saved.iterdir())
    curve = {}
    for path in paths[EVERY - 1 :: EVERY]:
        model: Any = read_model(path.read_bytes())
        curve[int(path.stem)] = round(percent(model.predict(data.X), data.y), 2)
    steps = sum(rows.EPOCHS * -(-len(site) // rows.BATCH) for site in data.sites) * len(paths) // len(data.sites)
    facts = {"row": row, "alpha": alpha, "rounds": len(paths), "images": images, "steps a site": steps}
    return facts | found | {"curve": curve}


def page(lines: Sequence[dict[str, Any]]) -> str:
    """Return the rows that are there as a page: of those that are not finished, the learning curves."""
    text = ["# HyperFed at full size", "", (__doc__ or "").split("\n\n")[-1].strip(), ""]
    for alpha in ALPHAS:
        own = [line for line in lines if line["alpha"] == alpha]
        if own:
            text += [f"## α = {alpha:g}", "", *results(own), "", *curves(own), ""]
    return "\n".join(text)


def results(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of one α: figures in the end, and how far each row is."""
    shown = []
    for line in sorted(lines, key=lambda line: -line.get("global", 0.0)):
        name = PAPER.get(line["row"], line["row"])
        cells = []
        for kind in ("global", "personal"):
            theirs = published.value(kind, name, "cifar-10", line["alpha"])
            ours = f"{line[kind]:.1f}" if kind in line else "–"
            cells.append(ours if theirs is None else f"{ours} ({theirs:.1f})")
        said = "finished" if "global" in line else "broken off: not settled at this size"
        shown.append([line["row"], *cells, f"{line['rounds']}", f"{line['steps a site']:,}", said])
    return table(["row", "G-FL (paper)", "P-FL (paper)", "rounds of 100", "steps a site", ""], shown)


def curves(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return the joint model's accuracy after some rounds, for all rows of one α."""
    rounds = sorted({int(number) for line in lines for number in line["curve"]})
    shown = [
        [line["row"], *(f"{one[n]:.1f}" if n in one else "–" for n in rounds)]
        for line in lines
        for one in [{int(number): value for number, value in line["curve"].items()}]
    ]
    return table(["G-FL after round", *map(str, rounds)], shown)


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
    made.add_argument("--until", type=int, help="leave each row, at the first α, when it has so many rounds")
    options = made.parse_args(arguments)
    if options.quick:
        folder = options.runs / "quick"
        shutil.rmtree(folder, ignore_errors=True)
        print_json(options, {"FedAvg": compute("FedAvg", 0.5, folder, rounds=EVERY, images=600)})
        shutil.rmtree(folder)
        return
    cells = Lines(RESULTS.folder / "full.jsonl")
    for alpha in () if options.report else ALPHAS if options.until is None else ALPHAS[:1]:
        for row in options.only:
            key, folder = (
                f"{row} | {alpha:g}",
                options.runs / f"{row} {alpha:g}".replace(",", "").replace(" ", "-"),
            )
            before = cells.lines.get(key, {"rounds": 0})
            if before["rounds"] < (options.until or ROUNDS):
                cells.add(key, compute(row, alpha, folder, until=options.until))
                write(cells)
    print_json(options, write(cells))


if __name__ == "__main__":
    main()

"""HyperFed's Tables 1 and 2, cell by cell: data set × α × row × seed × setting; it goes on where it stopped.

    python papers/hyperfed/table.py                      # compute what is missing, in order of importance
    python papers/hyperfed/table.py --minutes 30         # stop after so long
    python papers/hyperfed/table.py --only core          # one part
    python papers/hyperfed/table.py --report             # rebuild results/table.{json,md} and pictures from cells
    python papers/hyperfed/table.py --check              # some cells through the secure protocol: the same models
    python papers/hyperfed/table.py --quick --json       # three tiny cells, seconds; writes nothing

Every finished cell is one line of results/table-cells.jsonl. Fashion-MNIST: 6,000 images, every 2 × 2 pixels made one,
an MLP with an embedding of 20, 30 rounds; CIFAR-10: the same, with LeNet and GroupNorm, 15 rounds. Twenty sites,
Dirichlet splits; of a site's images a quarter is held out; pixels are scaled by all sites' means and deviations.
"global" (the paper's G-FL) is the accuracy of the joint model on the official test images, "personal" (P-FL) that of
the sites' own models on what they hold out, over all images; rows without a personal way of their own take five more
steps at the site. Two settings: "paper" has batch 128, 5 epochs, rate 0.3, HyperFed by its printed equations, rivals as
in its Appendix B; "tuned" differs in that it tries the rates 0.03, 0.1 and 0.3 for every row and α, once with a seed
that is not reported, judged by the images that sites hold out, and in that HyperFed's Eqs. 5 and 10 are solved exactly
(a first screening, with pixels scaled otherwise, also tried 1: best for HyperFed at α = 0.5 only); a tuned run that
goes astray is done again with the next lower rate; the five steps in the end have a rate of 0.03 (the paper's: 0.3).
"long" is 100 rounds with the rates tuned for 30. Everything else is the same for all rows. What is computed are the
plain runs, which equal runs of the secure protocol: a test compares one round, and --check some cells, bit for bit.
Some cells are of the code before sums of models had 32 bits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedgeom
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.ridge.image_features import Conv

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, parser, percent, print_json
from papers.hyperfed import pictures, report, rows
from papers.hyperfed.lines import Lines
from papers.hyperfed.split import IMAGES, Split, draw
from papers.pooling import pooled

RESULTS = Results(Path(__file__).resolve().parent / "results")
ALPHAS, SEEDS, TUNING_SEED, WATCHED = (0.1, 0.5, 5.0), (0, 1, 2), 100, 2000
CHECKED = {"FedAvg": 30, rows.MOMENTUM: 30, "SCAFFOLD": 5, "HyperFed": 2}
"""Rows and rounds that --check runs by the secure protocol."""
split = lru_cache(maxsize=4)(draw)


class Cell(NamedTuple):
    """What one line of the results is about."""

    set: str
    alpha: float
    kind: str
    """The network."""
    row: str
    seed: int
    setting: str
    """"paper", "tuned", or what was tried: "rate 0.1"."""

    @property
    def key(self) -> str:
        """The cell's name."""
        return " | ".join(map(str, self))


class Cells(Lines):
    """The finished cells."""

    def rate(self, cell: Cell) -> float | None:
        """Return a cell's learning rate; None where it has yet to be tuned."""
        if cell.setting == "paper":
            return rows.PAPER
        if cell.setting != "tuned":
            return float(cell.setting.split()[1])
        tried = {rate: self.lines.get(trial(cell, rate).key) for rate in rows.GRID}
        known = {rate: line["validation"] for rate, line in tried.items() if line is not None}
        return max(known, key=lambda rate: known[rate]) if len(known) == len(tried) else None

    def same(self, cell: Cell, rate: float) -> dict[str, Any] | None:
        """Return the figures of the other setting where it would compute the very same."""
        other = cell._replace(setting={"paper": "tuned", "tuned": "paper"}.get(cell.setting, ""))
        line = self.lines.get(other.key)
        if line is None or cell.row not in rows.OWN_WAY or line.get("rate") != rate:
            return None
        return {name: value for name, value in line.items() if name not in ("cell", *Cell._fields)}


def trial(cell: Cell, rate: float) -> Cell:
    """Return the cell that tells how well a rate does for a row; longer training has the rate of shorter."""
    kind = "mlp" if cell.kind == "long" else cell.kind
    return cell._replace(kind=kind, seed=TUNING_SEED, setting=f"rate {rate:g}")


def compute(cell: Cell, rate: float, rounds: int | None = None, images: int = IMAGES) -> dict[str, Any]:
    """Train one cell and return its figures."""
    data = split(cell.set, cell.alpha, cell.seed, coarse=rows.COARSE[cell.kind], rows=images)
    began, curve = time.process_time(), list[float]()
    effort = rows.effort(cell.kind, rate, rounds)
    rule = rows.method(cell.row, cell.kind, data.shape, effort, paper=cell.setting == "paper")
    tuning = cell.seed == TUNING_SEED

    def keep(name: str, file: bytes) -> None:
        model: Any = read_model(file)
        if model.joint and not tuning and cell.row not in rows.PERSONAL:
            curve.append(round(percent(model.predict(data.X[:WATCHED]), data.y[:WATCHED]), 2))

    if cell.row == rows.POOLED:
        model, local = pooled(rule, data.sites, cell.seed), None
    else:
        plain = rule.plain(data.sites, cell.seed, keep=keep)
        model, local = plain.model, plain.local
    found = figures(model, local, data, test=not tuning, joint=cell.row not in rows.PERSONAL)
    facts = {"rate": rate, "rounds": effort["n_rounds"], "images": images}
    return found | facts | {"curve": curve, "seconds": round(time.process_time() - began, 1)}


def ridge(cell: Cell) -> dict[str, Any]:
    """Run Ridge on learnt convolutions over the same sites: secure sums, no rounds, λ chosen from the sums."""
    data = split(cell.set, cell.alpha, cell.seed)
    channels, height, width = data.shape

    def last(X: Any) -> Any:  # Ridge has channels last
        return np.moveaxis(X.reshape(-1, *data.shape), 1, -1).reshape(len(X), -1)

    sites = [fedgeom.SiteData(site.name, last(site.X), site.y) for site in data.sites]
    held = {name: (last(X), y) for name, (X, y) in data.held.items()}
    began = time.process_time()
    method = fedgeom.Ridge(features=Conv(n_filters=60), shape=(height, width, channels), personal=True)
    run = fedgeom.run(method, sites, seed=cell.seed)
    found = figures(run.model, run.local, data._replace(held=held, X=last(data.X)), test=True)
    return found | {"rate": None, "rounds": 0, "curve": [], "seconds": round(time.process_time() - began, 1)}


def figures(model: Any, local: Any, data: Split, *, test: bool, joint: bool = True) -> dict[str, Any]:
    """Return accuracies in percent: on the test images only where asked for, on held-out ones always."""
    shared = joint and getattr(model, "joint", True)  # whether it predicts without a site's own part
    right, together, count, each = 0, 0, 0, []
    for name, (X, y) in data.held.items():
        wanted = y.astype(str)
        own = model if local is None else model.for_site(local[name])
        said = own.predict(X).astype(str) == wanted
        right, count = right + int(said.sum()), count + len(y)
        each.append(float(said.mean()))
        together += int(np.sum(model.predict(X).astype(str) == wanted)) if shared else 0
    found: dict[str, Any] = {
        "personal": round(100 * right / count, 3),
        "by site": round(100 * float(np.mean(each)), 3),
    }
    found["joint held"] = round(100 * together / count, 3) if shared else None
    found["validation"] = found["personal"] if found["joint held"] is None else found["joint held"]
    if test:
        found["global"] = round(percent(model.predict(data.X), data.y), 3) if shared else None
    return found


def tuned(
    names: Sequence[str], kind: str, seeds: Sequence[int], alphas: Sequence[float], set_: str
) -> Iterator[Cell]:
    """Yield what a tuned part of the table needs: trials first, then the cells."""
    for alpha in alphas:
        for row in names:
            for rate in rows.GRID:
                yield trial(Cell(set_, alpha, kind, row, 0, "tuned"), rate)
    for seed in seeds:
        for alpha in alphas:
            for row in names:
                yield Cell(set_, alpha, kind, row, seed, "tuned")


def plan() -> dict[str, list[Cell]]:
    """Return all cells by part, the most important first."""
    fashion = "fashion-mnist"
    published = [*rows.CORE[:5], *rows.TABLE_1, *rows.TABLE_2]
    return {
        "core": list(tuned(rows.CORE, "mlp", SEEDS, ALPHAS, fashion)),
        "tables": list(tuned((*rows.TABLE_1, *rows.TABLE_2), "mlp", SEEDS, ALPHAS, fashion)),
        "fair": list(tuned(rows.FAIR, "mlp", SEEDS, ALPHAS, fashion)),
        "paper": [
            Cell(fashion, alpha, "mlp", row, seed, "paper")
            for seed in SEEDS
            for alpha in ALPHAS
            for row in published
        ],
        "ridge": [
            Cell(fashion, alpha, rows.RIDGE, rows.RIDGE, seed, "tuned") for seed in SEEDS for alpha in ALPHAS
        ],
        "others": list(tuned(rows.OTHERS, "mlp", SEEDS, ALPHAS, fashion)),
        "cifar-10": [
            Cell("cifar-10", alpha, "lenet16", row, seed, "paper")
            for seed in SEEDS
            for alpha in ALPHAS
            for row in rows.NINE
        ],
        "cifar-10-tuned": list(tuned(rows.NINE, "lenet16", SEEDS, ALPHAS, "cifar-10")),
        "long": [Cell(fashion, ALPHAS[0], "long", row, seed, "tuned") for seed in SEEDS for row in rows.CORE],
        "lenet": [Cell(fashion, ALPHAS[0], "lenet", row, seed, "paper") for seed in SEEDS for row in rows.CORE],
    }


def found(cells: Cells, cell: Cell, **size: int) -> dict[str, Any] | None:
    """Return what comes of a cell; None where its rate has yet to be tuned.

    Training that goes astray is seen by everybody, whatever the test images say. With a tuned rate it is then done
    again with the next lower one; elsewhere it is the result.
    """
    if cell.row == rows.RIDGE:
        return cell._asdict() | ridge(cell)
    rate = cells.rate(cell)
    if rate is None:
        return None
    lower = sorted((one for one in rows.GRID if one < rate), reverse=True) if cell.setting == "tuned" else []
    figures: dict[str, Any] = {}
    for tried in (rate, *lower):
        try:
            figures = cells.same(cell, tried) or compute(cell, tried, **size)
        except fedgeom.FedgeomError as error:
            figures = {"error": str(error)[:200], "rate": tried, "validation": 0.0, "curve": []}
        if "error" not in figures:
            break
    return cell._asdict() | figures | ({"tuned rate": rate} if figures["rate"] != rate else {})


def check(row: str, rounds: int) -> dict[str, Any]:
    """Train a row by the secure protocol and by its plain run, and return how far the models are apart."""
    data = split("fashion-mnist", ALPHAS[0], 0, coarse=True)
    rule = rows.method(row, "mlp", data.shape, rows.effort("mlp", 0.1, rounds))
    run, plain = fedgeom.run(rule, data.sites, seed=0), rule.plain(data.sites, 0)
    secure: Any = run.model
    gap = float(np.abs(secure.parameters.flat() - plain.model.parameters.flat()).max())
    return {"rounds": rounds, "largest difference": gap, "global": percent(secure.predict(data.X), data.y)}


def write(cells: Cells, results: Results) -> dict[str, Any]:
    """Write tables, pages and the learning curves from the cells that are there."""
    lines, parts = list(cells.lines.values()), plan()
    found = report.main_table(lines)
    results.write("table", found, lambda _: report.page(lines, parts, (__doc__ or "").split("\n\n")[-1]))
    results.write("table-paper-settings", report.summary(lines, "paper"))
    pictures.curves(lines, results.folder / "curves.png")
    report.put(results.folder.parent / "README.md", "tables", report.readme(lines, parts))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what is missing, then report; or one of the two."""
    parts = plan()
    made = parser(__doc__, parts)
    made.add_argument(
        "--report", action="store_true", help="compute nothing; rebuild tables and pictures from cells"
    )
    made.add_argument("--compute", action="store_true", help="write cells alone, no tables")
    made.add_argument("--check", action="store_true", help="compare some cells with the secure protocol")
    made.add_argument("--minutes", type=float, default=1e6, help="begin no cell after so many minutes")
    made.add_argument("--cells", type=Path, default=RESULTS.folder / "table-cells.jsonl", help="the file of cells")
    options = made.parse_args(arguments)
    if options.quick:
        print_json(options, quick())
        return
    if options.check:
        checked = {row: check(row, rounds) for row, rounds in CHECKED.items()}
        RESULTS.write("table-check", checked)
        print_json(options, checked)
        return
    cells = Cells(options.cells)
    until = time.time() + 60 * options.minutes
    for part in () if options.report else options.only:
        cells.go_on({cell.key: partial(found, cells, cell) for cell in parts[part]}, until)
    print_json(options, {} if options.compute else write(cells, RESULTS))


def quick() -> dict[str, Any]:
    """Return figures of three rows, from two rounds with 1,000 images."""
    cells = Cells(None)
    for row in ("FedAvg", "HyperFed", rows.MOMENTUM):
        cell = Cell("fashion-mnist", ALPHAS[1], "mlp", row, 0, "paper")
        cells.add(cell.key, cell._asdict() | compute(cell, rows.PAPER, rounds=2, images=1000))
    return report.summary(cells.lines.values(), "paper")


if __name__ == "__main__":
    main()

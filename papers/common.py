"""What the scripts of all papers share: figures, tables in Markdown, the command line, data and result files.

Scripts are run as ``python papers/<paper>/<script>.py``. Each puts the repository's root on the path in one line and
then imports ``papers.common`` and ``papers.<paper>.…``; tests import them by the same names.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fedgeom.data import datasets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[Any]


# Figures.


class Figure(TypedDict):
    """A mean, how far values spread (one of the two ways), the number of values, and the paper's mean."""

    mean: float
    ci95: NotRequired[float]
    """The half width of the mean's 95 % confidence interval."""
    sd: NotRequired[float]
    """The standard deviation of the values."""
    n: int
    paper: float | None


Row = dict[str, Figure]
"""Figures by the name of their column."""


class Difference(TypedDict):
    """The mean of paired differences, and both ends of its 95 % confidence interval."""

    mean: float
    ci95: list[float]


def confidence(values: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Return the mean and the half width t·s/√n of its confidence interval, s being the sample deviation (n - 1).

    A single value stands for a method without randomness; its half width is 0.
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) == 1:
        return float(x[0]), 0.0
    t = stats.t.ppf((1 + level) / 2, len(x) - 1)
    return float(x.mean()), float(t * x.std(ddof=1) / np.sqrt(len(x)))


def figure(
    values: Sequence[float], paper: float | None = None, *, spread: Literal["ci95", "sd"] = "ci95"
) -> Figure:
    """Sum values up, with the interval of their mean or with their deviation (n - 1 in the denominator)."""
    mean, half = confidence(values)
    if spread == "ci95":
        return {"mean": round(mean, 2), "ci95": round(half, 2), "n": len(values), "paper": paper}
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": round(mean, 2), "sd": round(deviation, 2), "n": len(values), "paper": paper}


def difference(ours: ArrayLike, theirs: ArrayLike) -> Difference:
    """Return the mean of ours − theirs over pairs, with its interval (Student's t)."""
    mean, half = confidence(np.asarray(ours) - np.asarray(theirs))
    return {"mean": round(mean, 4), "ci95": [round(mean - half, 4), round(mean + half, 4)]}


def percent(found: ArrayLike, wanted: ArrayLike, *, balanced: bool = False) -> float:
    """Return the share of right answers in percent, or its mean over classes; labels are compared as text."""
    wanted = np.asarray(wanted)
    right = np.asarray(found).astype(str) == wanted.astype(str)
    if balanced:
        return 100.0 * float(np.mean([right[wanted == label].mean() for label in np.unique(wanted)]))
    return 100.0 * float(right.mean())


# Tables.


def plus_minus(entry: Figure, digits: int = 2) -> str:
    """Write a figure as "86.04 ± 1.41", and one of a single value without ±."""
    mean = f"{entry['mean']:.{digits}f}"
    return f"{mean} ± {_spread(entry):.{digits}f}" if entry["n"] > 1 else mean


def with_interval(gap: Difference, digits: int = 4) -> str:
    """Write a difference as "+0.0120 [+0.0031, +0.0209]"."""
    low, high = (f"{bound:+.{digits}f}" for bound in gap["ci95"])
    return f"{gap['mean']:+.{digits}f} [{low}, {high}]"


def bold(text: str, condition: bool = True) -> str:
    """Make a text bold where a condition holds."""
    return f"**{text}**" if condition else text


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    first, *others = (
        "|" + "".join(f" {cell} |" if cell != "" else " |" for cell in line) for line in (head, *rows)
    )
    return [first, "|---" * len(head) + "|", *others]


def print_rows(rows: Mapping[str, Row], beside: str = "paper") -> None:
    """Print rows of figures, with the paper's where it has some."""
    for title, row in rows.items():
        print(title)
        for name, entry in row.items():
            theirs = "" if entry["paper"] is None else f"   {beside} {entry['paper']:.2f}"
            print(f"  {name:30} {entry['mean']:6.2f} ± {_spread(entry):5.2f}  n={entry['n']}{theirs}", flush=True)


def _spread(entry: Figure) -> float:
    return entry["ci95"] if "ci95" in entry else entry["sd"]


# The command line.


def parser(doc: str | None, only: Iterable[str]) -> argparse.ArgumentParser:
    """Make the command line that all scripts have; ``only`` names the parts that can be computed alone."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--quick", action="store_true", help="a small version in seconds to a minute; writes no file"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    names = list(only)
    made.add_argument(
        "--only", nargs="+", choices=names, default=names, help="compute these; others stay as they are"
    )
    return made


def print_json(options: argparse.Namespace, content: Mapping[str, Any]) -> None:
    """Print what was made as the last line, where ``--json`` asks for it."""
    if options.json:
        print(json.dumps(content, ensure_ascii=False))


# Files.


class MissingFile(SystemExit):
    """A data file is not here: a script ends with this, or leaves out what needs the file."""


def data_folder() -> Path:
    """Return the folder of the data sets: FEDGEOM_DATA, or ``shared/data`` near by or beside the repository."""
    return datasets.data_folder() or Path(__file__).resolve().parents[2] / "shared" / "data"


def load_data(name: str) -> Any:
    """Open one of the data files."""
    path = data_folder() / name
    if not path.is_file():
        raise MissingFile(f"{name} is not here; put it into a folder and set FEDGEOM_DATA to that")
    return np.load(path)


@dataclass(frozen=True)
class Results:
    """A paper's folder of results: figures as JSON, and pages made from them."""

    folder: Path

    def read(self, name: str) -> dict[str, Any]:
        """Return the figures under this name; nothing if there are none yet."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def write(
        self, name: str, figures: Mapping[str, Any], page: Callable[[dict[str, Any]], str] | None = None
    ) -> None:
        """Write figures, and the page made from them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
        (self.folder / f"{name}.json").write_text(text, encoding="utf-8")
        if page is not None:
            (self.folder / f"{name}.md").write_text(page(dict(figures)), encoding="utf-8")

    def keep(
        self,
        name: str,
        rows: Mapping[str, Any],
        order: Iterable[str],
        page: Callable[[dict[str, Any]], str] | None = None,
    ) -> dict[str, Any]:
        """Put rows among those written before, which stay as they are, and return all of them.

        Rows are in the order given, by their titles or by the first words of these.
        """
        merged, ranks = self.read(name) | dict(rows), list(order)

        def rank(title: str) -> int:
            known = title if title in ranks else title.split(" ")[0]
            return ranks.index(known) if known in ranks else len(ranks)

        merged = {title: merged[title] for title in sorted(merged, key=rank)}
        self.write(name, merged, page)
        return merged


def finish(
    options: argparse.Namespace,
    results: Results,
    name: str,
    found: Mapping[str, Any],
    order: Iterable[str],
    page: Callable[[dict[str, Any]], str],
    picture: Callable[[dict[str, Any], Path], None] | None = None,
) -> None:
    """End a script: print the page and, with ``--json``, what was found.

    Without ``--quick`` it is put among the results, which are drawn once all parts are there.
    """
    print(page(dict(found)))
    if not options.quick:
        wanted = list(order)
        whole = results.keep(name, found, wanted, page)
        if picture is not None and set(wanted) <= set(whole):
            picture(whole, results.folder / f"{name}.png")
    print_json(options, found)


def draw(
    doc: str | None, results: Results, pictures: Mapping[str, tuple[Callable[[Any], Any], tuple[float, float]]]
) -> None:
    """Be a script that makes pictures from results: each a function of a figure, with its size in inches."""
    from matplotlib.figure import Figure as Drawing  # only pictures need it

    options, said = parser(doc, pictures).parse_args(), dict[str, Any]()
    for name in options.only:
        make, size = pictures[name]
        drawing = Drawing(figsize=size, layout="constrained")
        said[name] = make(drawing)
        drawing.savefig(io.BytesIO() if options.quick else results.folder / f"{name}.png", dpi=110)
        print(f"{name}: {said[name]}")
    print_json(options, said)

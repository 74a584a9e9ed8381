"""The page of table1.py: figures beside the paper's, settings, and which to pick when."""

from __future__ import annotations

import fedgeom
from papers.common import Figure, Row, bold, plus_minus, table
from papers.hulls import published

OUR_C = fedgeom.Hulls().C
MAIN = ("CP", f"CP λ={OUR_C:g}", "CE", "FLP", "FLE", "FLP ours", "Moments centroid", "Moments gaussian")
FEDERATED = ("FLP", "FLE", "FLP untrimmed", "FLP ours", "Moments centroid", "Moments gaussian")

SETTINGS = {
    "olsson": "the paper's row: 271 training and 48 test points, L = 3, trials i = 0 … 9 with partition seed "
    "3i and seed 4i",
    "olsson-100": "our addition: `train_test_split(test_size=.15, random_state=s)`, s = 0 … 99, L = 3 dealt with "
    "seed s",
    "fashion-mnist": "our addition: 60,000 and 10,000 points as shipped, 10 classes, dealt with seeds 0 … 4",
    "cifar10": "our addition: 50,000 and 10,000 points as shipped, 10 classes, dealt with seeds 0 … 4",
    "paul15": "our addition: 2,730 points, 19 clusters, random 85/15 splits with seeds 0 … 9, L = 3",
    "hipc": "our addition: 5 hospitals, 4,000 cells each, 70/30, seeds 0 … 4, 10 cell types, 7 markers; "
    '`embedding="discriminant"`; the mean over the hospitals of the accuracy on their own test cells',
}


def markdown(results: dict[str, Row]) -> str:
    """Lay the results out, with the paper's figures below ours where it has some."""
    lines = [
        "# Table 1: accuracy in percent, mean ± half width of the 95 % interval",
        "",
        "Made by `python papers/hulls/table1.py`; the figures are in `table1.json`. The best federated method of",
        "a row is bold. Every federated figure comes from runs with the full secure protocol; in every trial the",
        "plain run gave the same model, bit for bit (moments: up to rounding to fixed point).",
        "",
    ]
    first, further = [], []
    for title, row in results.items():
        present = {name: row[name]["mean"] for name in FEDERATED if name in row}
        best = max(present, key=present.__getitem__)
        first.append([title, *(_cell(row.get(name), best=name == best) for name in MAIN)])
        if any(entry["paper"] is not None for entry in row.values()):
            first.append([f"{title}, paper", *(_paper_cell(row, name) for name in MAIN)])
        others = [name for name in row if name not in MAIN]
        further += [(title, name, _cell(row[name]), _paper_cell(row, name)) for name in others]
    lines += [*table(["data set", *MAIN], first), ""]
    lines += table(["data set", "further", "ours", "paper"], further)
    lines += ["", "Settings and seeds:", ""]
    lines += [f"- **{name}**: {text}." for name, text in SETTINGS.items()]
    return "\n".join([*lines, "", NOTES.strip(), ""])


def _cell(entry: Figure | None, *, best: bool = False) -> str:
    """Write a figure, the mean of the best one bold."""
    if entry is None:
        return "–"
    mean, sign, half = plus_minus(entry).partition(" ± ")
    return f"{bold(mean, best)}{sign}{half}"


def _paper_cell(row: Row, name: str) -> str:
    if name not in row or row[name]["paper"] is None:
        return "–"
    return f"{row[name]['paper']:.2f} ± {published.PAPER_CI.get(name, 0.0):.2f}"


NOTES = """
The paper's other rows (Lung-Human and UC-Stromal) rest on embeddings that are not among our data; we have no
figures for them. Intervals over fixed train and test parts (the image rows) tell how much the deal to sites
matters, not how much other data would. Random splits of one set overlap, so the intervals of `olsson-100` and
`paul15` are somewhat too narrow.

## Which to pick when

- If all sites use the same label names, begin with `Moments(rule="gaussian")`: it wins on Olsson, Paul,
  Fashion-MNIST and the hospitals, it ties on CIFAR-10, it takes rows of any width, and it shows the coordinator
  pooled counts, means and covariances where the hulls show single points.
- Pick `Hulls` when sites cannot agree on names, or do not want to: it finds out by itself which classes belong
  together, which moments cannot do, and needs no names from anybody.
- Leave trimming on (by itself it spares small classes): where classes overlap (Fashion-MNIST) it lifts the
  hulls by five points or more, past every pooled SVM in the table, and it keeps the outlying rows at home.
- With a few dozen points per class and site the hulls lose to the pooled SVM if classes overlap (Paul), and they
  hide little: on Olsson half of all training points are corners and travel.
- That the published FLP beats CP on Olsson is a matter of balance: a hull has few corners whatever the size of its
  class. CP with balanced classes reaches the same, and neither reaches the moments.
- Do not squeeze many informative columns into the disc if names are shared: on the hospitals' seven markers the
  disc costs more than ten points, and there the joint hulls are also behind each hospital's own disc at home
  ("local only"). They are ahead of it at other hospitals ("local elsewhere").
- Take the paper's λ = 0.1 to reproduce the paper, and for nothing else.
"""

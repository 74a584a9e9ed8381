"""What a coordinator can rebuild from Hamming distances, what helps against it, and what that costs.

    python papers/xclp/attack.py                  # everything, some minutes; writes results/attack.{json,md}
    python papers/xclp/attack.py --only digits    # one data set
    python papers/xclp/attack.py --quick --json   # one seed, fewer points; writes nothing

The attacker has the coordinator's view and knows some rows with their labels, as one site that tells it
everything would give. It turns distances into cosines, embeds all points by multidimensional scaling (the leading
eigenvectors of the matrix of cosines), and fits a linear map from the embedding to the rows it knows. Applied to
all other points that gives a guess of their directions; lengths are not in the distances. Figures:

- rebuilt: mean cosine between guess and truth; "nearest known" is what the best matching known row would reach
  (with the truth at hand), so that rebuilding more than that is more than recognising;
- class: how often the three known rows nearest to the guess name the right class;
- purity: without any known row, k-means on the embedding (30 clusters) and the share of each cluster's main class;
- accuracy: what XCLP with our setting reaches at 10 % labels, so that a mitigation's cost can be seen.

Mitigations that XCLP offers: fewer hash bits; sites turn hash bits at random before the protocol (distances are
debiased, by the attacker as well); anchors, where the coordinator learns no distance at all but the anchors themselves:
for these the table has the mean cosine of a row to the anchor nearest to it, an upper bound on what a guess could
reach, since nothing says which row is near which anchor. One that it does not offer: the coordinator learns only each
point's k = 5 largest cosines. The protocol shows it all distances; to pick the largest in secret, sites would have to
compare numbers under encryption.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import eigsh

from fedgeom.geometry.graphs.anchors import fit_anchors, unit_rows
from fedgeom.geometry.graphs.knn import knn_graph, normalise
from fedgeom.geometry.graphs.lsh import cosine_from_hamming, debias, flip_bits, hamming, hash_bits

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, MissingFile, parser, percent, print_json, table
from papers.xclp.plain import plain
from papers.xclp.tasks import RESULTS, SEEDS, Task, digits, mnist_writers, show_labels, spread

LENGTHS = (256, 1024, 4096, 16384)
NOISE = ((1024, 0.1), (1024, 0.2), (4096, 0.1), (4096, 0.2), (4096, 0.3))
LEAST = (1, 5, 10)
KNOWN = 200


def embed(similarity: Any, rank: int) -> Floats:
    """Embed points by the leading eigenvectors of a matrix of similarities (classical scaling)."""
    start = np.ones(similarity.shape[0])  # a fixed start vector makes the result repeatable
    values, vectors = eigsh(similarity, k=min(rank, similarity.shape[0] - 2), which="LA", v0=start)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def rebuild(place: Floats, X: Floats, known: Any) -> Floats:
    """Fit a ridge map from the embedding to the known rows and apply it to all; choose the ridge on known rows."""
    A, B = place[known], unit_rows(X[known])
    half = np.arange(len(A)) % 2 == 0
    scale = float(np.mean(A**2)) * A.shape[0]
    best, guess = -1.0, np.zeros_like(X)
    for ridge in (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0):
        M = _ridge(A[half], B[half], ridge * scale)
        fit = float(np.mean(np.sum(unit_rows(A[~half] @ M) * B[~half], axis=1)))
        if fit > best:
            best, guess = fit, place @ _ridge(A, B, ridge * scale)
    return unit_rows(guess)


def _ridge(A: Floats, B: Floats, amount: float) -> Floats:
    return np.asarray(np.linalg.solve(A.T @ A + amount * np.eye(A.shape[1]), A.T @ B))


def judge(place: Floats, task: Task, known: Any, clusters: int = 30) -> dict[str, float]:
    """Measure what an embedding gives away."""
    from sklearn.cluster import KMeans

    U = unit_rows(task.X)
    hidden = np.setdiff1d(np.arange(len(U)), known)
    guess = rebuild(place, task.X, known)[hidden]
    nearest = np.argsort(-(guess @ U[known].T), axis=1)[:, :3]
    votes = task.y[known][nearest]
    named = np.array([np.bincount(v).argmax() for v in votes])
    groups = KMeans(clusters, n_init=1, random_state=0).fit_predict(place[hidden])
    main = sum(np.bincount(task.y[hidden][groups == g]).max() for g in np.unique(groups))
    return {
        "rebuilt": float(np.mean(np.sum(guess * U[hidden], axis=1))),
        "class": float(np.mean(named == task.y[hidden])),
        "purity": float(main / len(hidden)),
    }


def one(task: Task, seed: int) -> dict[str, dict[str, float]]:
    """Attack one data set in all ways."""
    rng = np.random.default_rng([seed, 5])
    known = np.sort(rng.permutation(len(task.y))[:KNOWN])
    hidden = np.setdiff1d(np.arange(len(task.y)), known)
    U, rank = unit_rows(task.X), 150
    shown = show_labels(task, 0.1, seed)

    def cost(**options: Any) -> float:
        labels = spread(
            task, shown, task.all, lambda s: plain(s, classes=task.classes, seed=seed, **options).sites
        )
        return percent(labels[task.test], task.y[task.test]) / 100

    found = {"nearest known": {"rebuilt": float((U[hidden] @ U[known].T).max(axis=1).mean())}}
    for L in LENGTHS:
        bits = hash_bits(task.X, rng.bytes(32), L)
        S = cosine_from_hamming(hamming(bits, bits, L), L)
        found[f"all pairs, L = {L}"] = judge(embed(S, rank), task, known) | {"accuracy": cost(L=L)}
        if L == 4096:
            W = knn_graph(S, 5, power=1)
            found["5 largest only, L = 4096"] = judge(embed(normalise(W), rank), task, known) | {
                "accuracy": cost()
            }
        for rate in (rate for length, rate in NOISE if length == L):
            noisy = flip_bits(bits, rate, rng)
            T = cosine_from_hamming(debias(hamming(noisy, noisy, L), L, rate), L)
            np.fill_diagonal(T, 1.0)
            found[f"{rate:.0%} of bits turned, L = {L}"] = judge(embed(T, rank), task, known) | {
                "accuracy": cost(L=L, flip_rate=rate, rng=rng)
            }
    for least in LEAST:
        anchors = fit_anchors([task.X], 300, rng.bytes(32), least=least)
        cosine = U @ anchors.T
        found[f"anchors, cells of {least} or more"] = {
            "rebuilt": float(cosine.max(axis=1).mean()),
            "anchors": float(len(anchors)),
            "anchors that are a row": float(np.mean(cosine.max(axis=0) > 0.9999)),
            "accuracy": cost(graph="anchors", least=least),
        }
    return found


def _make(name: str, quick: bool) -> Callable[[int], Task]:
    if name == "digits":
        return lambda seed: digits(seed, "iid", 5)
    return lambda seed: mnist_writers(seed, "pixels", 6 if quick else 20)


NAMES = ("digits", "mnist")


def run(name: str, quick: bool) -> dict[str, dict[str, float]]:
    """Attack with several seeds and average."""
    total: dict[str, dict[str, list[float]]] = {}
    for seed in SEEDS[:1] if quick else SEEDS:
        for view, figures in one(_make(name, quick)(seed), seed).items():
            for key, value in figures.items():
                total.setdefault(view, {}).setdefault(key, []).append(value)
    return {view: {key: round(float(np.mean(v)), 4) for key, v in keys.items()} for view, keys in total.items()}


OPTIONS = (
    {"5 largest only, L = 4096": "not offered"}
    | {f"all pairs, L = {L}": f"`bits={L}`" for L in LENGTHS}
    | {f"{rate:.0%} of bits turned, L = {L}": f"`bits={L}, flip={rate}`" for L, rate in NOISE}
    | {f"anchors, cells of {least} or more": f'`graph="anchors", least_cell={least}`' for least in LEAST}
)
"""How to get a view with `XCLP`."""


def markdown(results: dict[str, Any]) -> str:
    """Write the tables down."""
    text = [
        "# What the coordinator can rebuild, means over seeds 10, 11, 12",
        "",
        "Made by `python papers/xclp/attack.py`; the figures are in `attack.json`, what they mean in the script. The",
        f"attacker knows {KNOWN} rows. The paper calls the matrix of distances a rather benign object and measures",
        "nothing of this kind.",
    ]
    head = ["the coordinator sees", "option of `XCLP`", "rebuilt", "class", "purity", "accuracy at 10 % labels"]
    for name, views in results.items():
        text += ["", f"## {name}", "", *table(head, [_cells(view, keys) for view, keys in views.items()])]
    return "\n".join([*text, ""])


def _cells(view: str, keys: dict[str, float]) -> list[str]:
    """Write one view down."""
    title = view
    if "anchors" in keys:
        share = keys["anchors that are a row"]
        title = f"{view} ({keys['anchors']:.0f} anchors, {share:.0%} of them a row)"
    figures = [f"{keys[k]:.3f}" if k in keys else "–" for k in ("rebuilt", "class", "purity", "accuracy")]
    return [title, OPTIONS.get(view, "–"), *figures]


def main() -> None:
    """Parse, run, print, write."""
    options = parser(__doc__, NAMES).parse_args()
    made = {}
    for name in options.only:
        try:
            made[name] = run(name, options.quick)
        except MissingFile as reason:
            print(f"{name} is left out: {reason}")
            continue
        print(name)
        for view, keys in made[name].items():
            print(f"  {view:36} " + "  ".join(f"{key} {value:.3f}" for key, value in keys.items()), flush=True)
    if not options.quick:
        RESULTS.keep("attack", made, NAMES, markdown)
    print_json(options, made)


if __name__ == "__main__":
    main()

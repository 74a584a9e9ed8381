"""What a run over pairs costs, beside Section 3.3: bytes of whole secure runs, and a client's operations.

    python papers/xclp/cost.py                    # seconds to a minute; writes results/cost.*
    python papers/xclp/cost.py --only bytes       # one of the two parts
    python papers/xclp/cost.py --quick --json     # 3 sites of 6 rows, 64 bits; writes nothing

- **bytes**: whole runs of `fedgeom.XCLP` (`fedgeom.run`) over p sites of n rows, half of them labelled, C = 3 classes:
  what a site sends, from the ledger, in all and of that the letters of the Hamming protocol with the others' shares,
  for each way to compare hashes, with and without two groups of sites (Appendix B.1). Beside it what Section 3.3
  counts: with oblivious transfer n_j·n_k·L values of two bytes from one of each two clients to the other; with
  homomorphic encryption n_j·L ciphertexts (512 bytes, Paillier with 2,048 bits) one way and n_j·n_k back; n_j·n_k
  values of two bytes from each to the server; and N·C numbers (8 bytes here) to the row sums, N = p·n.
- **operations**: Section 3.3's count per client, O(dnL) for hashes, O(Lpn²) for distances, O(Cpnm) for labels, for its
  own example (p = 10, d = 512, L = 4,096, n = 100) and for sets of tables.py; per row, which the paper puts at 10⁷.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import finish, parser, table
from papers.xclp.tasks import RESULTS

CLASSES, PAILLIER = 3, 512
SIZES = ((6, 6, 64), (6, 12, 64), (6, 12, 256))
"""Sites, rows of each, bits."""
COMPARISONS = ("bfv", "ot")
LETTERS = ("xclp.first", "xclp.letters")
EXAMPLES = {
    "the paper's example": (10, 100, 50, 512, 4096, 10),
    "digits, 20 sites": (20, 90, 9, 64, 4096, 10),
    "MNIST by 25 writers": (25, 110, 11, 784, 4096, 10),
    "Kang, 8 donors": (8, 300, 30, 50, 4096, 8),
}
"""Clients p, rows n, labelled m, columns d, bits L, classes C."""


def rows_of(p: int, n: int) -> list[fedgeom.SiteData]:
    """Draw three classes as directions; every other row has its label."""
    rng = np.random.default_rng(0)
    y = np.arange(p * n) % CLASSES
    X = np.eye(8)[y] + 0.3 * rng.normal(size=(p * n, 8))
    shown = np.where(np.arange(p * n) // CLASSES % 2 == 0, y.astype(str), "")
    parts = np.array_split(np.arange(p * n), p)
    return [fedgeom.SiteData(f"site {at}", X[rows], shown[rows]) for at, rows in enumerate(parts)]


def counted(p: int, n: int, L: int, how: str) -> dict[str, float]:
    """Return Section 3.3's bytes of a client in the mean: half of its pairs it begins, half it answers."""
    pairs = p - 1
    between = n * n * L * 2 / 2 if how == "ot" else (n * L + n * n) * PAILLIER / 2
    return {"letters": pairs * (between + 2 * n * n) + n * (n - 1), "row sums": 8 * p * n * CLASSES}


def whole_runs(sizes: tuple[tuple[int, int, int], ...]) -> list[dict[str, Any]]:
    """Return what sites sent in whole runs."""
    found = []
    for p, n, L in sizes:
        sites = rows_of(p, n)
        for how in COMPARISONS:
            for groups in (None, 2) if p >= 6 else (None,):
                method = fedgeom.XCLP(hash_bits=L, hamming=how, n_groups=groups, classes=("0", "1", "2"))
                began = time.process_time()
                run = fedgeom.run(method, sites, seed=0)
                seconds = time.process_time() - began
                assert not run.lost, run.lost
                letters = np.mean(
                    [sum(e.bytes for e in run.ledger if e.site == s.name and e.kind in LETTERS) for s in sites]
                )
                everything = np.mean([sum(e.bytes for e in run.ledger if e.site == s.name) for s in sites])
                said = counted(p // (groups or 1), n, L, how)
                found.append(
                    {
                        "sites": p,
                        "rows": n,
                        "bits": L,
                        "comparison": how,
                        "groups": groups or 1,
                        "letters": round(float(letters)),
                        "everything": round(float(everything)),
                        "counted": round(sum(said.values())),
                        "CPU s": round(seconds, 2),
                    }
                )
    return found


def operations() -> dict[str, dict[str, float]]:
    """Return Section 3.3's operations of one client."""
    found = {}
    for name, (p, n, m, d, L, C) in EXAMPLES.items():
        hashes, distances, labels = d * n * L, L * p * n * n, C * p * n * m
        alone = d * n * n + n**3 + C * m * n
        whole = hashes + distances + labels
        found[name] = {
            "hashes": hashes,
            "distances": distances,
            "labels": labels,
            "per row": whole / n,
            "over per-client LP": whole / alone,
        }
    return found


def page(results: dict[str, Any]) -> str:
    """Return both tables as Markdown."""
    lines = ["# What a run over pairs costs", "", "Made by `python papers/xclp/cost.py`, whose head says how.", ""]
    if part := results.get("bytes"):
        lines += ["## Bytes that a site sends, in the mean", ""]
        head = [
            "sites",
            "rows each",
            "bits",
            "comparison",
            "groups",
            "letters and shares",
            "whole run",
            "Section 3.3",
            "CPU s",
        ]
        keys = ("sites", "rows", "bits", "comparison", "groups", "letters", "everything", "counted", "CPU s")
        rows = [[f"{one[k]:,}" if isinstance(one[k], int) else one[k] for k in keys] for one in part]
        lines += [*table(head, rows), ""]
        lines += [
            "Section 3.3's count for BFV is that of Paillier with one number in a ciphertext; BFV packs thousands, and",
            "sends more for few rows and bits, and less for more. In two groups of three a site is compared with two",
            "others in place of five: letters are two fifths.",
            "",
        ]
    if part := results.get("operations"):
        lines += ["## Operations of one client, by Section 3.3", ""]
        head = ["", "hashes, dnL", "distances, Lpn²", "labels, Cpnm", "per row", "over per-client propagation"]
        rows = [
            [
                name,
                *(f"{one[k]:.1e}" for k in ("hashes", "distances", "labels", "per row")),
                f"{one['over per-client LP']:.0f} ×",
            ]
            for name, one in part.items()
        ]
        lines += [*table(head, rows), ""]
        lines += [
            "The paper's 10⁷ a row holds for its example; 8p times per-client propagation (L = 8d) is 80 for it.",
            "",
        ]
    return "\n".join(lines)


PARTS = ("bytes", "operations")


def main() -> None:
    """Measure, write and print."""
    options = parser(__doc__, PARTS).parse_args()
    found: dict[str, Any] = {}
    if "bytes" in options.only:
        found["bytes"] = whole_runs(((3, 6, 64),) if options.quick else SIZES)
    if "operations" in options.only:
        found["operations"] = operations()
    finish(options, RESULTS, "cost", found, PARTS, page)


if __name__ == "__main__":
    main()

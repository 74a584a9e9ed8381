"""Make papers/README.md: every table, figure, algorithm and theorem of the papers, from contents.toml.

python papers/contents.py
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from papers.common import table  # noqa: E402 the root must be on the path first

STATUSES = (
    "holds",
    "partly",
    "does not hold",
    "not settled at this size",
    "could not be had",
    "not yet",
    "no claim",
)


HEAD = """\
# The papers, entry by entry

Every table, figure, algorithm and theorem of the four papers that fedgeom implements: what makes it, where the result
is, and whether we found it so. Made from [contents.toml](contents.toml) by `python papers/contents.py`; a test finds
entries that are missing. What the scripts make beyond the papers is in each paper's README and in
the other folders here.

- [hulls](hulls/README.md): Federated Classification in Hyperbolic Spaces via Secure Aggregation of Convex Hulls
- [xclp](xclp/README.md): Cross-client Label Propagation for Transductive and Semi-Supervised Federated Learning
- [ptopofl](ptopofl/README.md): pTopoFL: Privacy-Preserving Personalised Federated Learning via Persistent Homology
- [hyperfed](hyperfed/README.md): HyperFed: Hyperbolic Prototypes Exploration with Consistent Aggregation for Non-IID
  Data in Federated Learning

“Holds” is meant of what the paper says about an entry, on the data that we have; “partly” is explained beside it;
“not settled at this size” is a run with under a quarter of the
paper's steps; “could not be had” are data that are not public; “no claim” are drawings and lists of settings.
"""


def read() -> dict[str, list[dict[str, Any]]]:
    """Return the entries of every paper."""
    return tomllib.loads((HERE / "contents.toml").read_text(encoding="utf-8"))


def page() -> str:
    """Lay all entries out in one table."""
    contents = read()
    counts = dict.fromkeys(STATUSES, 0)
    rows = []
    for paper, entries in contents.items():
        for one in entries:
            counts[one["status"]] += 1
            command = f"`{one['command']}`" if one["command"] else "–"
            files = ", ".join(f"[{Path(file).name}]({file})" for file in one["files"]) or "–"
            rows.append(
                [
                    f"[{paper}]({paper}/README.md)",
                    one["entry"],
                    one["what"],
                    command,
                    files,
                    one["status"],
                    one["found"],
                ]
            )
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    head = ["paper", "entry", "what", "command", "results", "status", "what we found"]
    return "\n".join([HEAD, f"In all: {said}.", "", *table(head, rows), ""])


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(), encoding="utf-8")
    print("wrote papers/README.md")

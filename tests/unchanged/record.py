"""Write down what the runs of `cases` yield, or compare two checkouts byte for byte.

    python tests/unchanged/record.py --json NOW.json            # write down what this checkout yields
    python tests/unchanged/record.py --against ../other         # both checkouts, each in a process of its own
    python tests/unchanged/record.py --values                   # make values.json, which CI compares with

Two checkouts on one machine must agree in every byte of the joint model, of what each site itself has, and in the
kinds and sizes of all messages. Between machines, arithmetic differs in the last digits: there, `test_unchanged`
compares numbers with values.json to nine digits, and to five where a learner works in single precision.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
VALUES = HERE / "values.json"
SAMPLES = 24
"""How many numbers of an array are written down; their places are spread evenly."""


def observe(case: Any) -> dict[str, Any]:
    """Run a case and return what must not change."""
    import fedgeom

    method, sites = case.make()
    run = fedgeom.run(method, sites, seed=case.seed)
    arrays, facts = run.model.tensors()
    entries = [(e.step, e.site, e.kind, e.bytes, e.received) for e in run.ledger]
    return {
        "model": hashlib.sha256(run.model.to_bytes()).hexdigest(),
        "facts": json.loads(json.dumps(facts, default=plain)),
        "numbers": {name: digest(array) for name, array in sorted(arrays.items())} | own_numbers(run.local),
        "sites": {
            name: hashlib.sha256(json.dumps(found, default=plain, sort_keys=True).encode()).hexdigest()
            for name, found in sorted(run.local.items())
        },
        "kinds": sorted({kind for _, _, kind, _, _ in entries}),
        "ledger": hashlib.sha256(repr(entries).encode()).hexdigest(),
        "bytes": sum(size for *_, size, _ in entries),
        "lost": run.lost,
    }


def own_numbers(local: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of the sites' own models and scores."""
    keys = [(site, key) for site in sorted(local) for key in ("model", "scores") if key in local[site]]
    return {f"{key} of {site}": digest(local[site][key]) for site, key in keys}


def digest(array: Any) -> dict[str, Any]:
    """Return an array's shape and some of its numbers."""
    flat = np.asarray(array, np.float64).ravel()
    at = np.unique(np.linspace(0, max(flat.size - 1, 0), min(SAMPLES, flat.size)).astype(int))
    return {"shape": list(np.shape(array)), "sum": float(flat.sum()), "some": flat[at].tolist()}


def plain(value: Any) -> Any:
    """Return what JSON knows; numbers keep all their digits."""
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


def observe_all(only: str = "") -> dict[str, Any]:
    """Run all cases, or those whose name contains some text."""
    sys.path.insert(0, str(HERE))
    from cases import cases

    found: dict[str, Any] = {}
    for case in cases():
        title = f"{case.name}, seed {case.seed}"
        if only in title:
            found[title] = observe(case)
    return found


def observe_checkout(checkout: Path, only: str) -> dict[str, Any]:
    """Run all cases with the package of another checkout."""
    command = [sys.executable, str(HERE / "record.py"), "--json", "-", "--only", only]
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve() / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return a line for everything that is not the same, byte for byte."""
    lines = [f"{title}: in one checkout only" for title in sorted(set(one) ^ set(other))]
    for title in sorted(set(one) & set(other)):
        a, b = one[title], other[title]
        lines += [f"{title}: {part} differs" for part in a if part != "numbers" and a[part] != b.get(part)]
    return lines


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write what this checkout yields to a file (-: the screen)")
    parser.add_argument("--against", type=Path, help="another checkout to compare this one with")
    parser.add_argument("--values", action="store_true", help="make values.json")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    options = parser.parse_args()
    if options.against is not None:
        here = HERE.parent.parent
        lines = differences(observe_checkout(here, options.only), observe_checkout(options.against, options.only))
        print("\n".join(lines) or "nothing differs")
        sys.exit(bool(lines))
    found = observe_all(options.only)
    if options.values:
        kept = {title: {"facts": one["facts"], "numbers": one["numbers"]} for title, one in found.items()}
        VALUES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return
    text = json.dumps(found)
    if options.json in (None, "-"):
        print(text)
    else:
        Path(options.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

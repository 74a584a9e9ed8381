"""What the benchmarks share: the command line, the parts that can be measured alone, and the file of results.

Scripts are run as ``python benchmarks/<script>.py``. Each puts the repository's root on the path in one line and then
imports ``benchmarks.common``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
Parts = Mapping[str, Callable[[bool], Any]]
"""What is measured, by name: each takes whether it is to be quick, and returns figures; None where it cannot be."""


def parser(doc: str | None, only: Iterable[str] = ()) -> argparse.ArgumentParser:
    """Make the command line that benchmarks have; ``only`` names the parts that can be measured alone."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    made.add_argument("--json", action="store_true", help="only print one JSON object, as the last line")
    names = sorted(only)
    if names:
        made.add_argument("--only", choices=names, help="one part; others in the results stay as they are")
    return made


def measure_parts(
    options: argparse.Namespace, parts: Parts, results: str = "", notes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Measure the parts that are asked for, print them, and return them.

    ``results`` names the file among the results that they are kept in; ``notes`` are printed after parts' names.
    """
    found: dict[str, Any] = {}
    for name, part in parts.items():
        made = part(options.quick) if options.only in (None, name) else None
        if made is not None:
            found[name] = made
            if not options.json:
                print(
                    f"{name}{(notes or {}).get(name, '')}\n{json.dumps(made, indent=2, ensure_ascii=False)}",
                    flush=True,
                )
    if results and not options.quick:
        keep(results, read(results) | found)
    return found


def read(results: str) -> dict[str, Any]:
    """Return what is kept under a name; nothing where there is nothing yet."""
    path = RESULTS / f"{results}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(results: str, figures: Mapping[str, Any]) -> None:
    """Write figures to the file of this name among the results."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{results}.json").write_text(text, encoding="utf-8")


def main(doc: str | None, parts: Parts, results: str = "") -> None:
    """Measure as the command line says, and print one JSON object as the last line."""
    print(json.dumps(measure_parts(parser(doc, parts).parse_args(), parts, results), ensure_ascii=False))

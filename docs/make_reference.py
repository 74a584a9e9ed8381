"""Write docs/reference.md, every public name with its docstring, and the tables of settings on the methods' pages."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from fedgeom import FedAvg
from fedgeom.extend import Algorithm
from fedgeom.federation.describing import parameters
from fedgeom.federation.method import METHODS
from fedgeom.methods.catalogue import method_class

OWN_PAGES = ("hyperfed", "ptopofl", "xclp-training")
"""Algorithms with a page of their own."""

MODULES = {
    "fedgeom": None,
    "fedgeom.geometry.hyperbolic.poincare": None,
    "fedgeom.geometry.hyperbolic.hull": ("convex_hull", "graham_scan", "trimmed_hull", "default_trim"),
    "fedgeom.geometry.hyperbolic.grid": ("PolarGrid", "EqualAreaGrid"),
    "fedgeom.geometry.hyperbolic.isometry": ("Isometry", "procrustes"),
    "fedgeom.geometry.hyperbolic.sampling": ("uniform_disc", "labelled_disc"),
    "fedgeom.geometry.hyperbolic.prototypes": ("tammes", "closed_form", "published", "contract", "distances"),
    "fedgeom.geometry.hyperbolic.tree_embedding": ("embed_tree", "tree_prototypes", "distortion"),
    "fedgeom.geometry.graphs.class_tree": ("ClassTree", "tree_error", "depth_accuracy"),
    "fedgeom.geometry.min_norm": ("consistent_weights", "least_norm", "frank_wolfe", "as_printed"),
    "fedgeom.codes.sidon": ("bose_chowla", "SidonLabels", "CountedLabels"),
    "fedgeom.codes.scma": ("ScmaCode",),
    "fedgeom.federation.settings": ("Settings", "Between", "Choice"),
    "fedgeom.federation.site": ("Site", "Part", "answers"),
    "fedgeom.protocols.cohort": ("join", "Cohort"),
    "fedgeom.protocols.site": ("SummingSite", "Contribution"),
    "fedgeom.protocols.secure_sum.messages": ("SumQuestion", "SumResult", "Ticket"),
    "fedgeom.protocols.handing_out": ("hand_out",),
    "fedgeom.protocols.names.coordinator": ("agree_on_names",),
    "fedgeom.methods.iterative": None,
    "fedgeom.data.readers": ("register_reader", "Reader"),
    "fedgeom.testing": ("check_method", "example_sites"),
}


def public_names(module: object, wanted: tuple[str, ...] | None) -> list[str]:
    """Return the names to document, in order."""
    if wanted is not None:
        return list(wanted)
    name = getattr(module, "__name__", "")
    if name == "fedgeom":
        return [one for one in dir(module) if not one.startswith("_")]
    if name == "fedgeom.methods.iterative":
        return sorted(one for one, value in vars(module).items() if inspect.isclass(value))
    own = getattr(module, "__name__", "")
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == own
    ]


def entry(name: str, value: object) -> str:
    """Describe one name."""
    try:
        signature = str(inspect.signature(value)) if callable(value) else ""  # type: ignore[arg-type]
    except ValueError:
        signature = "(…)"
    return f"### `{name}{signature}`\n\n{inspect.getdoc(value) or ''}\n"


def reference() -> str:
    """Return the whole page."""
    parts = ["# Reference\n\nMade by `make docs` from the docstrings.\n"]
    for path, wanted in MODULES.items():
        module = importlib.import_module(path)
        parts.append(f"## {path}\n")
        parts += [entry(name, getattr(module, name)) for name in public_names(module, wanted)]
    return "\n".join(parts)


ALGORITHMS = "algorithms"
"""What docs/training.md calls the settings of single algorithms."""


def settings(name: str) -> str:
    """Return the table of a method's own settings, with those that all algorithms share left out."""
    if name == ALGORITHMS:
        rows = [
            f"| `{cls.__name__}` {line}"
            for cls in map(method_class, METHODS)
            if issubclass(cls, Algorithm) and cls.__module__.startswith("fedgeom.") and cls.name not in OWN_PAGES
            for line in own_settings(cls)
        ]
        return "\n".join(["| algorithm | setting | default | meaning |", "|---|---|---|---|", *rows])
    rows = own_settings(method_class(name))
    head = ["| setting | default | meaning |", "|---|---|---|"]
    more = (
        "\n\nBesides, those [of all algorithms](training.md#settings-that-all-algorithms-share)."
        if issubclass(method_class(name), Algorithm)
        else ""
    )
    return "\n".join([*head, *rows]) + more


def own_settings(cls: type[Any]) -> list[str]:
    """Return a line for each setting that is not every algorithm's."""
    shared = {one.name: one.default for one in parameters(FedAvg)} if issubclass(cls, Algorithm) else {}
    shared = {} if cls is FedAvg else shared
    found = []
    for one in parameters(cls):
        if shared.get(one.name) == one.default or (cls is FedAvg):
            continue
        said = " ".join(one.meaning.split()).replace("|", "\\|") or one.wanted.replace("|", "\\|")
        found.append(f"| `{one.name}` | `{one.default}` | {said} |")
    return found


def filled(page: str) -> str:
    """Return a page with its tables of settings as they are now."""
    return re.sub(
        r"(<!-- settings of (\S+): [^>]*-->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{settings(found[2])}\n{found[3]}",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    for page in Path(__file__).parent.glob("*.md"):
        before = page.read_text(encoding="utf-8")
        if filled(before) != before:
            page.write_text(filled(before), encoding="utf-8")
    target = Path(__file__).with_name("reference.md")
    target.write_text(reference(), encoding="utf-8")
    print(f"wrote {target.name}", file=sys.stderr)

"""Write docs/reference.md: every public name, its signature and its docstring."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

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


if __name__ == "__main__":
    target = Path(__file__).with_name("reference.md")
    target.write_text(reference(), encoding="utf-8")
    print(f"wrote {target.name}", file=sys.stderr)

"""Write docs/reference.md, every public name with its docstring, and the tables of settings on the methods' pages."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from fedgeom import FedAvg
from fedgeom.extend import Algorithm
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.settings import Choice, Settings, parameters
from fedgeom.methods.catalogue import method_class

OWN_PAGES = ("hyperfed", "ptopofl", "xclp-training")
"""Algorithms with a page of their own."""

WIDE = 100
"""A call that is longer has a line for each argument."""

MODULES = {
    "fedgeom": None,
    "fedgeom.geometry.hyperbolic.poincare": None,
    "fedgeom.geometry.hyperbolic.hull": ("convex_hull", "graham_scan", "trimmed_hull", "default_trim"),
    "fedgeom.geometry.hyperbolic.grid": ("PolarGrid", "EqualAreaGrid"),
    "fedgeom.geometry.hyperbolic.isometry": ("Isometry", "procrustes"),
    "fedgeom.geometry.hyperbolic.sampling": ("uniform_disc", "labelled_disc"),
    "fedgeom.geometry.hyperbolic.prototypes": (
        "tammes",
        "closed_form",
        "published",
        "contract",
        "distances",
        "embed_tree",
        "tree_prototypes",
        "distortion",
    ),
    "fedgeom.geometry.graphs.class_tree": ("ClassTree", "tree_error", "depth_accuracy"),
    "fedgeom.geometry.min_norm": ("consistent_weights", "least_norm", "frank_wolfe", "as_printed"),
    "fedgeom.codes.sidon": ("bose_chowla", "SidonLabels", "CountedLabels"),
    "fedgeom.codes.scma": ("ScmaCode",),
    "fedgeom.federation.settings": ("Settings", "Between", "Choice"),
    "fedgeom.federation.site": ("Site", "Part", "answers"),
    "fedgeom.protocols.cohort": ("join", "Cohort"),
    "fedgeom.protocols.site": ("SummingSite", "Contribution"),
    "fedgeom.protocols.secure_sum.messages": ("SumQuestion", "SumResult", "Ticket"),
    "fedgeom.protocols.model_delivery": ("hand_out",),
    "fedgeom.protocols.names": ("agree_on_names",),
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


def entry(name: str, value: Any, shown: dict[int, str]) -> str:
    """Describe one name; what was described above, by this or another name, is not described again."""
    before = shown.setdefault(id(value), "")
    if before:
        return "" if before == name else f"### `{name}`\n\nThe same as [`{before}`](#{before.lower()}).\n"
    shown[id(value)] = name
    table = settings_table(value)
    said = without_parameters(inspect.getdoc(value) or "") if table else as_markdown(inspect.getdoc(value) or "")
    called = "" if table and _made_of_fields(value) else call_of(name, value)
    parts = [f"### `{name}`", called, said, table, members(value)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _made_of_fields(value: Any) -> bool:
    """Say whether a class is called with its fields, of which there is a table, and nothing else."""
    return issubclass(value, Settings) or set(inspect.signature(value).parameters) <= {
        one.name for one in dataclasses.fields(value)
    }


def call_of(name: str, value: Any) -> str:
    """Return how something is called, a line for each argument where there are many."""
    try:
        found = inspect.signature(value) if callable(value) else None
    except ValueError:
        return ""
    if found is None or not found.parameters:
        return ""
    short = f"{name}{_plain(str(found))}"
    if len(short) > WIDE:
        lines, seen = [], inspect.Parameter.POSITIONAL_ONLY
        for one in found.parameters.values():
            if one.kind is inspect.Parameter.KEYWORD_ONLY and seen < inspect.Parameter.VAR_POSITIONAL:
                lines.append("    *,")
            seen = one.kind
            lines.append(f"    {_plain(str(one))},")
        short = "\n".join([f"{name}(", *lines, f"){_returned(found)}"])
    return f"```text\n{short}\n```"


def _returned(found: inspect.Signature) -> str:
    return (
        "" if found.return_annotation is inspect.Signature.empty else f" -> {_plain(str(found.return_annotation))}"
    )


def _plain(text: str) -> str:
    """Return annotations as they stand in the source, without quotes around them."""
    text = re.sub(r"(: |-> )(['\"])(.*?)\2(?=,|\)| =|$)", r"\1\3", text)
    return re.sub(r"\b(?:fedgeom|collections|numpy|pathlib|typing)(?:\.\w+)*\.(?=[A-Z])", "", text)


def settings_table(value: Any) -> str:
    """Return a table of a class's settings; those that every algorithm has stand once, at `FedAvg`."""
    if not (inspect.isclass(value) and dataclasses.is_dataclass(value)):
        return ""
    try:
        found = parameters(value)
    except (NameError, TypeError):
        return ""
    shares = issubclass(value, Algorithm) and value is not FedAvg
    rows = []
    for one in found:
        if shares and usual().get(one.name) == one.default:
            continue
        default = f"`{_cell(one.default)}`" if one.default else ""
        rows.append(f"| `{one.name}` | {_cell(one.wanted)} | {default} | {_cell(one.meaning)} |")
    more = "The settings [of `FedAvg`](#fedavg), and as follows." if shares else ""
    word = "parameter" if issubclass(value, Settings | Choice) else "field"
    head = f"| {word} | what it may be | if not given | meaning |\n|---|---|---|---|\n"
    return "\n\n".join(part for part in (more, head + "\n".join(rows) if rows else "") if part)


@functools.cache
def usual() -> dict[str, str]:
    """Return the settings that every algorithm has, and what they are if they are not given."""
    return {one.name: one.default for one in parameters(FedAvg)}


def _cell(text: str) -> str:
    return as_markdown(" ".join(text.split())).replace("|", "\\|")


def as_markdown(text: str) -> str:
    """Return a docstring as a page has it: code in single ticks, and examples as code."""
    text = text.replace("``", "`")
    lines, inside = [], False
    for line in text.splitlines():
        code = line.startswith((">>>", "...")) or (inside and bool(line.strip()))
        if code != inside:
            lines.append("```text" if code else "```")
        lines.append(line.replace("# doctest: +SKIP", "").rstrip())
        inside = code
    text = "\n".join([*lines, "```"] if inside else lines)
    return re.sub(r"^(\w+)\n-{3,}\n(.*)", _listed, text, flags=re.MULTILINE | re.DOTALL)


def _listed(found: re.Match[str]) -> str:
    """Return a docstring's list of parameters as one of a page."""
    rows = re.sub(r"\n {4,}", ". ", found[2])
    return f"{found[1]}:\n\n" + re.sub(r"^(\w+): ", r"- `\1`: ", rows, flags=re.MULTILINE)


def without_parameters(text: str) -> str:
    """Return a docstring without the list of parameters, of which there is a table."""
    return as_markdown(re.split(r"\n\n?Parameters\n-{3,}\n", text)[0])


def members(value: Any) -> str:
    """Return what an object can do, for classes that are no methods with settings: those all can do the same."""
    settings = inspect.isclass(value) and issubclass(value, Settings | Choice)
    if not inspect.isclass(value) or (settings and value not in (Method, Algorithm)):
        return ""
    lines = []
    for name, one in vars(value).items():
        plain = one.__func__ if isinstance(one, classmethod | staticmethod) else one
        said = (inspect.getdoc(plain) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
        if name.startswith("_") or not said or not (inspect.isfunction(plain) or isinstance(plain, property)):
            continue
        call = "" if isinstance(plain, property) else _plain(str(inspect.signature(plain)))
        call = re.sub(r"^\((?:self|cls)(?:, )?", "(", call)
        lines.append(f"- `{name}{call}`: {said}")
    return "\n".join(lines)


def reference() -> str:
    """Return the whole page."""
    parts = [
        "# Reference\n\nEvery public name, from its docstring; made by `make docs`. Settings are given by name.\n"
    ]
    shown: dict[int, str] = {}
    for path, wanted in MODULES.items():
        module = importlib.import_module(path)
        parts.append(f"## {path}\n")
        found = [entry(name, getattr(module, name), shown) for name in public_names(module, wanted)]
        parts += [one for one in found if one] or ["All of it stands above.\n"]
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
    shared = usual() if issubclass(cls, Algorithm) else {}
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

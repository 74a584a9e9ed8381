"""Write docs/reference, a page for each public module, and the tables of settings on the methods' pages.

docs/reference is not committed: `make docs` makes it, and docs/build_site.py makes it anew for the site.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
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
    "fedgeom.partition": None,
    "fedgeom.preparation": None,
    "fedgeom.methods.iterative": None,
    "fedgeom.extend": None,
    "fedgeom.testing": ("check_method", "example_sites"),
    "fedgeom.geometry.hyperbolic": None,
    "fedgeom.geometry.hyperbolic.poincare": None,
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
}
"""The public modules, and which of their names are documented; None: all public classes and functions."""

SHARED = ("fedgeom", "FedAvg")
"""Where the settings that all algorithms share are documented: module and name."""


def public_names(module: ModuleType, wanted: tuple[str, ...] | None) -> list[str]:
    """Return the names to document, in order: of a plain module only what is defined in it."""
    if wanted is not None:
        return list(wanted)
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    shown = {name: one for name, one in found.items() if inspect.isclass(one) or inspect.isfunction(one)}
    gathers = hasattr(module, "__path__") or module.__name__ in ("fedgeom.extend", "fedgeom.partition")
    return [name for name, one in shown.items() if gathers or one.__module__ == module.__name__]


def entry(name: str, value: Any, module: str, shown: dict[int, tuple[str, str]]) -> str:
    """Describe one name; what another page describes, by this or another name, is linked."""
    if id(value) in shown:
        home, before = shown[id(value)]
        return f"## `{name}`\n\nSee [`{home}.{before}`]({link(home, before, module)}).\n"
    shown[id(value)] = (module, name)
    table = settings_table(value, module)
    said = without_parameters(inspect.getdoc(value) or "") if table else as_markdown(inspect.getdoc(value) or "")
    called = "" if table and _made_of_fields(value) else call_of(name, value)
    parts = [f"## `{name}`", called, said, table, members(value)]
    return "\n\n".join(part for part in parts if part) + "\n"


def link(module: str, name: str, here: str) -> str:
    """Return the address of a name, on this page or on another module's."""
    return ("" if module == here else f"{module}.md") + f"#{name.lower()}"


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


def settings_table(value: Any, module: str) -> str:
    """Return a table of a class's settings; those that every algorithm has are listed once, at `FedAvg`."""
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
    more = f"The settings [of `FedAvg`]({link(*SHARED, module)}), and as follows." if shares else ""
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
    """Return a docstring as a page has it: code in single ticks, examples as code, sections with their lists."""
    parts = SECTION.split(text.replace("``", "`"))
    found = [_with_examples(parts[0])]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        listed = _list(body) if title in LISTS else _with_examples(inspect.cleandoc(body))
        found.append(f"**{title}**\n\n{listed}")
    return "\n\n".join(part.strip("\n") for part in found if part.strip())


SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
"""A title of a docstring's section, underlined."""

LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises")
"""The sections that list names (or types) with what they mean in the indented lines below."""


def _with_examples(text: str) -> str:
    lines = []
    inside = False
    for line in text.splitlines():
        aligned = re.match(r"\S+(?: \S+)* {3,}\S", line)  # columns, which a paragraph would run together
        code = bool(aligned) or line.startswith((">>>", "...")) or (inside and bool(line.strip()))
        if code != inside:
            lines.append("```text" if code else "```")
        lines.append(line.replace("# doctest: +SKIP", "").rstrip())
        inside = code
    return "\n".join([*lines, "```"] if inside else lines)


def _list(body: str) -> str:
    """Return a section's entries as a list: "name : type" with its meaning, one line each."""
    entries: list[list[str]] = []
    for line in inspect.cleandoc(body).splitlines():
        if line.startswith(" ") and entries:
            entries[-1].append(line.strip())
        elif line.strip():
            entries.append([line.strip()])
    lines = []
    for head, *meaning in entries:
        name, colon, kind = head.partition(":")
        shown = f"`{name.strip()}`: {kind.strip()}" if colon and IDENTIFIERS.fullmatch(name.strip()) else head
        said = " ".join(meaning)
        lines.append(f"- {shown.rstrip('.')}. {said}" if said else f"- {shown}")
    return "\n".join(lines)


IDENTIFIERS = re.compile(r"\*{0,2}\w+(?:, \*{0,2}\w+)*")


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


def reference() -> dict[str, str]:
    """Return the pages, by file name: one for each module, and an index."""
    pages = {}
    lines = []
    shown: dict[int, tuple[str, str]] = {}
    for path, wanted in MODULES.items():
        module = importlib.import_module(path)
        names = public_names(module, wanted)
        said = as_markdown(inspect.getdoc(module) or "")
        entries = [entry(name, getattr(module, name), path, shown) for name in names]
        pages[f"{path}.md"] = "\n".join([f"# {path}\n", f"{said}\n", *entries])
        lines.append(f"| [{path}]({path}.md) | {said.splitlines()[0]} |")
    head = "# Reference\n\nEvery public name, from its docstring. Settings are given by name.\n"
    pages["index.md"] = "\n".join([head, "| module | what it has |", "|---|---|", *lines]) + "\n"
    return pages


def write(folder: Path) -> int:
    """Write the pages into a folder of their own, in the place of older ones, and return how many they are."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = reference()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return len(pages)


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
    print(f"wrote {write(Path(__file__).with_name('reference'))} pages to docs/reference", file=sys.stderr)

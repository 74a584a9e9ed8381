"""Reading class trees: a JSON table, pairs of child and parent in a CSV file, an ontology in OBO format.

Several files are read as one, so that a CSV file may say under which terms of an ontology a site's own words are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ROOT, ClassTree

ENDINGS = (".json", ".csv", ".tsv", ".obo")

Edge = tuple[str, str]


def read_class_tree(files: Sequence[Path], classes: Sequence[str]) -> tuple[ClassTree, list[str]]:
    """Return the tree over some classes, and those that no file knows, which hang at its root.

    A class is found by its name, in small letters or capitals, or by the term's number ("CL:0000084").
    """
    edges: list[Edge] = []
    nodes: set[str] = set()
    called: dict[str, str] = {}
    for file in files:
        pairs, alone, numbers = _read(file)
        edges += pairs
        nodes |= alone
        called |= numbers
    edges = [(child, called.get(parent, parent)) for child, parent in edges]
    nodes |= {node for edge in edges for node in edge}
    letters = {node.casefold(): node for node in sorted(nodes)}
    letters |= {number.casefold(): name for number, name in called.items()}
    missing = []
    for name in classes:
        known = name if name in nodes else letters.get(name.casefold())
        if known is None:
            missing.append(name)
        elif known != name:
            edges.append((name, known))
    if len(missing) == len(classes):
        raise InputError(
            f"{', '.join(map(str, files))}: none of the classes is in the tree: {', '.join(classes[:8])}; add a CSV "
            "file with two columns, the class and the node it is under"
        )
    return ClassTree.from_ontology(edges, classes), missing


def _read(file: Path) -> tuple[list[Edge], set[str], dict[str, str]]:
    """Return the pairs of child and parent in a file, all its nodes, and the names of terms by their numbers."""
    if file.suffix not in ENDINGS or not file.is_file():
        raise InputError(f"{file} given; wanted a file that is there and ends in {', '.join(ENDINGS)}")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is no text in UTF-8: {error}") from error
    if file.suffix == ".obo":
        return _terms(text)
    if file.suffix == ".json":
        try:
            tree = ClassTree.read(msgspec.json.decode(text, type=dict))
        except (msgspec.DecodeError, InputError) as error:
            raise InputError(f"{file} is no class tree: {error}") from error
        nodes = set(tree.nodes) - {ROOT}
        pairs = [
            (tree.nodes[at], tree.nodes[above]) for at, above in enumerate(tree.parents.tolist()) if above >= 0
        ]
        return [(child, parent) for child, parent in pairs if parent != ROOT], nodes, {}
    mark = "\t" if file.suffix == ".tsv" else ","
    rows = [row for row in csv.reader(text.splitlines(), delimiter=mark) if row]
    wrong = next((at for at, row in enumerate(rows, start=1) if len(row) != 2 or not all(row)), None)
    if wrong is not None:
        raise InputError(f"{file}, line {wrong}: wanted two cells, a class and the node it is under")
    return [(child, parent) for child, parent in rows if (child, parent) != ("child", "parent")], set(), {}


def _terms(text: str) -> tuple[list[Edge], set[str], dict[str, str]]:
    """Return is_a relations between the terms of an ontology by name, those that are obsolete left out."""
    called: dict[str, str] = {}
    above: list[Edge] = []
    for stanza in _stanzas(text):
        number, name = stanza.get("id", [""])[0], stanza.get("name", [""])[0]
        if number and name and stanza.get("is_obsolete") != ["true"]:
            called[number] = name
            above += [(number, parent) for parent in stanza.get("is_a", [])]
    edges = [(called[child], called[parent]) for child, parent in above if parent in called]
    return edges, set(called.values()), called


def _stanzas(text: str) -> Iterator[dict[str, list[str]]]:
    """Yield the tags of each [Term]; comments, and what stands in braces, are left out."""
    for block in ("\n" + text).split("\n[")[1:]:
        kind, _, lines = block.partition("]")
        if kind != "Term":
            continue
        tags: dict[str, list[str]] = {}
        for line in lines.splitlines():
            tag, _, value = line.partition(":")
            tags.setdefault(tag.strip(), []).append(value.partition(" ! ")[0].partition(" {")[0].strip())
        yield tags

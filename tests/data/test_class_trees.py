"""Class trees in files: tables, pairs, ontologies, several as one."""

from __future__ import annotations

import json

import pytest

from fedgeom.data.class_trees import read_class_tree
from fedgeom.errors import InputError

CELLS = """format-version: 1.2
ontology: cl

[Term]
id: CL:0000000
name: cell

[Term]
id: CL:0000084
name: T cell
is_a: CL:0000000 ! cell

[Term]
id: CL:0000624
name: CD4-positive T cell
is_a: CL:0000084 {source="x"} ! T cell

[Term]
id: CL:0000625
name: CD8-positive T cell
is_a: CL:0000084 ! T cell

[Term]
id: CL:0000236
name: B cell
is_a: CL:0000000 ! cell

[Term]
id: CL:0000999
name: gone
is_obsolete: true
is_a: CL:0000084

[Typedef]
id: part_of
name: part of
"""


def above(tree):
    """Return each node's parent by name."""
    return {
        node: tree.nodes[parent]
        for node, parent in zip(tree.nodes, tree.parents.tolist(), strict=True)
        if parent >= 0
    }


def test_terms_of_an_ontology_are_found_by_name_or_number_and_words_by_a_table(tmp_path):
    (tmp_path / "cl.obo").write_text(CELLS)
    (tmp_path / "words.csv").write_text("child,parent\nmine,CL:0000625\n")
    classes = ["cd4-positive t cell", "CL:0000236", "mine", "other"]
    tree, missing = read_class_tree([tmp_path / "cl.obo", tmp_path / "words.csv"], classes)
    assert missing == ["other"]
    assert [tree.nodes[at] for at in tree.classes] == classes
    found = above(tree)
    assert found["mine"] == found["cd4-positive t cell"] == "T cell"
    assert found["CL:0000236"] == found["T cell"]
    assert "gone" not in tree.nodes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps({"CD4": "T", "CD8": "T", "T": "blood", "B": "blood"})),
        ("a.json", json.dumps({"blood": {"T": ["CD4", "CD8"], "B": {}}})),
        ("a.csv", "CD4,T\nCD8,T\nT,blood\nB,blood\n"),
        ("a.tsv", "CD4\tT\nCD8\tT\nT\tblood\nB\tblood\n"),
    ],
)
def test_tables_and_pairs_say_the_same(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    tree, missing = read_class_tree([tmp_path / name], ["CD4", "CD8", "B"])
    assert missing == []
    assert above(tree) == {"CD4": "T", "CD8": "T", "T": "blood", "B": "blood"}


def test_classes_at_the_top_of_a_table_are_known(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"T": ["CD4", "CD8"], "B": {}}))
    tree, missing = read_class_tree([tmp_path / "a.json"], ["CD4", "CD8", "B"])
    assert missing == []
    assert above(tree)["CD4"] == "T"
    assert above(tree)["B"] == above(tree)["T"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "CD4,T\nCD8\n", "line 2"),
        ("a.json", "[1]", "is no class tree"),
        ("a.json", json.dumps({"a": "b", "b": "a"}), "is no class tree"),
        ("a.obo", CELLS, "none of the classes"),
        ("a.txt", "", "ends in"),
    ],
)
def test_what_is_no_tree_of_the_classes_is_refused(name, text, said, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        read_class_tree([tmp_path / name], ["x", "y"])

"""Which node is which site: by admitted keys or by proven names."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedgeom.engines.flower import nodes
from fedgeom.engines.flower.nodes import Introductions, connected, names_by_key
from tests.engines.flower.conftest import NodeGrid, node

KEYS = {name: ec.generate_private_key(ec.SECP384R1()).public_key() for name in ("anna", "bert", "stranger")}


def line(name: str) -> str:
    encoding, kind = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return KEYS[name].public_bytes(encoding, kind).decode()


def pem(name: str) -> bytes:
    """The key as Flower tells it."""
    encoding, kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return KEYS[name].public_bytes(encoding, kind)


def by_number(there: list[SimpleNamespace]) -> Mapping[int, str]:
    return {one.node_id: {1: "anna", 2: "bert", 3: "carl"}[one.node_id] for one in there if one.node_id <= 3}


def test_nodes_are_named_by_the_keys_that_were_admitted() -> None:
    names_of = names_by_key({"anna": line("anna"), "bert": line("bert")})
    there = [
        node(7, key=pem("bert")),
        node(8, key=pem("anna").strip() + b"\n\n"),
        node(9, key=pem("stranger")),
        node(10),
    ]
    assert names_of(there) == {7: "bert", 8: "anna"}
    assert names_by_key({})(there) == {}


def test_only_sites_that_are_there_count_as_connected() -> None:
    grid = NodeGrid(node(1, since="noon"), node(2, status="offline"), node(3, status=""), node(4))
    assert connected(grid, by_number) == {"anna": (1, "noon"), "carl": (3, "t")}


def test_a_node_is_asked_for_its_name_a_few_times_and_then_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []

    def ask_names(grid: Any, new: list[int], roster: Mapping[str, bytes]) -> dict[int, str]:
        asked.append(list(new))
        return {1: "anna"} if 1 in new and len(asked) == 2 else {}

    monkeypatch.setattr(nodes, "ask_names", ask_names)
    names_of = Introductions(NodeGrid(), {}, times=3)
    there = [node(1), node(2)]
    assert [dict(names_of(there)) for _ in range(5)] == [{}, *[{1: "anna"}] * 4]
    assert asked == [[1, 2], [1, 2], [2], [], []]
    assert names_of([node(5)]) == {1: "anna"}
    assert asked[-1] == [5]

"""What only has to be returned is returned at once; everything else has its thread."""

from __future__ import annotations

import asyncio
import importlib
import threading
from typing import Any

import pytest

from fedgeom.engines.flower import patches
from fedgeom.engines.flower.patches import QUICK, at_once_if_quick, full_name
from tests.engines.flower.link import running_link


def where(word: str = "") -> tuple[str, int]:
    """Return a word, and the thread in which this was called."""
    return word, threading.get_ident()


class Where:
    """Is called like a function."""

    def __call__(self) -> tuple[str, int]:
        return where()


def called(function: Any, *arguments: Any, **options: Any) -> Any:
    return asyncio.run(at_once_if_quick(asyncio.to_thread)(function, *arguments, **options))


def test_what_is_quick_is_called_at_once_and_the_rest_in_a_thread(monkeypatch):
    here = threading.get_ident()
    assert called(where, word="a")[1] != here
    assert called(Where())[1] != here
    monkeypatch.setattr(patches, "QUICK", {f"{__name__}.where", f"{__name__}.Where"})
    assert called(where, "a") == called(where, word="a") == ("a", here)
    assert called(Where()) == ("", here)


def test_what_has_no_name_has_a_thread():
    assert full_name(object()) not in QUICK
    assert called(lambda: where())[1] != threading.get_ident()


def test_all_of_it_is_in_the_installed_flower():
    pytest.importorskip("flwr", reason="Flower is not installed")
    for name in QUICK:
        module, _, symbol = name.rpartition(".")
        assert full_name(getattr(importlib.import_module(module), symbol)) == name


def test_who_somebody_is_is_no_quick_matter():
    assert not [name for name in QUICK if "auth" in name.lower() or name.endswith("get_task")]


def test_a_poll_and_a_look_at_the_nodes_hand_only_the_rest_to_threads(flwr, inside_a_task):
    handed: list[str] = []

    def counting(in_thread: Any) -> Any:
        async def call(function: Any, *arguments: Any, **options: Any) -> Any:
            handed.append(full_name(function))
            return await in_thread(function, *arguments, **options)

        return at_once_if_quick(call)

    assert patches.replace(flwr.LINK_THREADS, by=counting)
    with running_link() as link:
        node, grid = link.node(), link.grid()
        handed.clear()  # what it takes to come in
        assert not node.poll().messages_list
        assert [one.node_id for one in grid.get_nodes()] == [node.identity.node_id]
    assert set(handed) == {"flwr.supercore.dependencies.runtime.get_task"}

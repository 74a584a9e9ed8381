"""Things found by name: those of this process, those of other packages, and clear words for the rest."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from fedgeom.errors import InputError
from fedgeom.federation.registry import Registry


class Thing:
    name = "thing"


class Other:
    name = "other"


def registry(**things: Any) -> Registry:
    made = Registry("toy", "fedgeom.test-toys")
    for name, thing in things.items():
        made.add(name, thing)
    return made


def offered(monkeypatch: pytest.MonkeyPatch, **places: str) -> None:
    """Let another package offer things by entry points."""
    points = [EntryPoint(name, place, "fedgeom.test-toys") for name, place in places.items()]
    module = Registry.__module__
    monkeypatch.setattr(f"{module}.entry_points", lambda group: points if group == "fedgeom.test-toys" else [])


def test_what_was_added_is_found() -> None:
    toys = registry(thing=Thing, other=Other)
    assert toys.find("thing") is toys["thing"] is Thing
    assert list(toys) == ["thing", "other"]
    assert str(toys) == "thing, other"
    assert len(toys) == 2
    assert "thing" in toys
    assert "nothing" not in toys


def test_what_is_not_there_is_refused_with_what_is() -> None:
    toys = registry(thing=Thing, other=Other)
    with pytest.raises(InputError, match="there is no toy 'nothing'; there are: thing, other"):
        toys.find("nothing")
    with pytest.raises(InputError, match="toy='nothing' is unknown; there are: thing, other"):
        toys.find("nothing", what="toy")


def test_it_is_a_mapping_like_any_other() -> None:
    toys = registry(thing=Thing)
    assert toys.get("nothing") is None
    assert dict(toys) == {"thing": Thing}
    with pytest.raises(KeyError):
        toys["nothing"]


def test_a_name_is_taken_once_but_a_new_definition_of_the_same_may_take_its_place() -> None:
    toys = registry(thing=Thing)
    with pytest.raises(InputError, match=r"there is a toy 'thing' already \(.*test_registry:Thing\)"):
        toys.add("thing", Other)
    again = type("Thing", (), {"__module__": Thing.__module__})
    toys.add("thing", again)
    assert toys["thing"] is again


def test_other_packages_offer_more_and_are_loaded_when_used(monkeypatch: pytest.MonkeyPatch) -> None:
    toys = registry(thing=Thing)
    offered(monkeypatch, other=f"{__name__}:Other", broken="no_such_package:Toy")
    assert list(toys) == ["thing", "other", "broken"]
    assert "broken" in toys
    assert toys._known == {"thing": Thing}  # nothing was loaded by looking
    assert toys["other"] is Other


def test_what_calls_itself_otherwise_than_it_was_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, wrong=f"{__name__}:Other")
    with pytest.raises(InputError, match="calls itself 'other', but was installed as the toy 'wrong'"):
        registry().find("wrong")


def test_what_comes_with_fedgeom_goes_before_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, thing=f"{__name__}:Other")
    toys = registry(thing=Thing)
    assert toys["thing"] is Thing
    assert list(toys) == ["thing"]

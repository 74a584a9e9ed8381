"""What a method's settings are and mean, for help() and the command line."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

import fedgeom
import fedgeom.preparation
from fedgeom.federation.method import Method
from fedgeom.federation.settings import Between, Choice, Parameter, parameters
from fedgeom.methods.catalogue import METHODS


@dataclass(frozen=True, kw_only=True)
class Toy(Method):
    """A toy.

    With a second paragraph.
    """

    size: Annotated[int, Between(1, 9)] = 3
    """How large it is,
    in rooms."""
    silent: bool = True


def test_settings_have_kind_default_and_meaning() -> None:
    assert parameters(Toy)[2:] == (
        Parameter("size", "a whole number from 1 to 9", "3", "How large it is,\nin rooms."),
        Parameter("silent", "True or False", "True", ""),
    )


def test_every_method_can_keep_rows_aside_and_prepare_them() -> None:
    kept, prepared = parameters(Toy)[:2]
    assert (prepared.name, prepared.wanted, prepared.default) == ("prepare", "a list of steps or None", "None")
    assert (kept.name, kept.wanted, kept.default) == ("holdout", "a share up to 0.5, Holdout(…) or None", "None")


def test_help_names_the_parameters() -> None:
    kept, prepared = parameters(Toy)[:2]
    meaning, how = (one.meaning.replace("\n", "\n    ") for one in (kept, prepared))
    assert inspect.getdoc(Toy) == (
        "A toy.\n\nWith a second paragraph.\n\nParameters\n----------\n"
        f"holdout: {kept.wanted}; None if not given\n    {meaning}\n"
        f"prepare: {prepared.wanted}; None if not given\n    {how}\n"
        "size: a whole number from 1 to 9; 3 if not given\n    How large it is,\n    in rooms.\n"
        "silent: True or False; True if not given"
    )


@pytest.mark.parametrize("name", [*METHODS])
def test_every_method_documents_all_its_parameters(name: str) -> None:
    cls: Any = METHODS[name]
    said = inspect.getdoc(cls) or ""
    for one in parameters(cls):
        assert one.meaning, f"{name}.{one.name} has no docstring"
        assert f"\n{one.name}: {one.wanted}; {one.default} if not given\n" in said
    assert [one.name for one in parameters(cls)] == [field.name for field in dataclasses.fields(cls)]


def choices(kind: type[Choice] = Choice) -> list[type[Choice]]:
    """Return all small objects that are settings: aggregations, losses, steps of preparation, networks, …"""
    found = [one for child in kind.__subclasses__() for one in (child, *choices(child))]
    return [one for one in found if one.__module__.startswith("fedgeom.")]


def test_every_choice_documents_all_its_parameters() -> None:
    assert len(choices()) > 50
    silent = [(cls.__name__, one.name) for cls in choices() for one in parameters(cls) if not one.meaning]
    assert silent == []
    for cls in choices():
        said = inspect.getdoc(cls) or ""
        assert all(f"\n{one.name}: {one.wanted}" in said for one in parameters(cls)), cls.__name__


def test_a_policy_documents_all_its_keys() -> None:
    said = inspect.getdoc(fedgeom.Policy) or ""
    for one in parameters(fedgeom.Policy):
        assert one.meaning
        assert f"\n{one.name}: {one.wanted}; {one.default} if not given\n" in said


def test_a_class_without_source_has_no_meanings() -> None:
    made = dataclasses.make_dataclass("Made", [("size", int, 3)], frozen=True, kw_only=True)
    assert [one.meaning for one in parameters(made)] == [""]
    assert "Sites add up" in str(fedgeom.Moments.__doc__)

"""Settings: what a field may be is said by its type, and what is wrong with a value is said in words."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import fedgeom
import fedgeom.methods
import fedgeom.preparation
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS
from fedgeom.federation.settings import (
    POSITIVE,
    SHARE,
    Between,
    Choice,
    ClassNames,
    Distinct,
    Settings,
    read_value,
    wanted,
)
from fedgeom.methods.xclp_training.settings import InnerAlgorithm


@dataclass(frozen=True)
class Colour(Choice):
    kind: ClassVar[str] = "test colour"


@dataclass(frozen=True)
class Plain(Colour):
    name: ClassVar[str] = "plain"


@dataclass(frozen=True)
class Mixed(Colour):
    name: ClassVar[str] = "mixed"
    red: Annotated[float, SHARE] = 0.5
    green: Annotated[int, Between(0, 9)] = 1


@dataclass(frozen=True, kw_only=True)
class Example(Settings):
    rounds: Annotated[int, Between(1, 500)] = 15
    rate: Annotated[float, POSITIVE] = 0.1
    rule: Literal["one", "two"] = "one"
    classes: ClassNames = None
    colour: Colour = Plain()
    fast: bool = False
    trim: Annotated[float, SHARE] | Literal["auto"] = "auto"
    note: str = ""


# --- values ---


def test_settings_are_known_to_scikit_learn() -> None:
    """`clone` could not copy a method."""
    some = Example(rounds=3, classes=("a", "b"), colour=Mixed(green=2))
    again = clone(some)
    assert again == some
    assert type(some)(**again.get_params(deep=False)) == some
    assert some.get_params()["colour__green"] == 2
    assert "colour__green" not in some.get_params(deep=False)
    assert some.set_params() is some
    with pytest.raises(InputError, match=r"settings never change; .*replace\(method, rounds=…\)"):
        some.set_params(rounds=4)


def test_what_numpy_gave_can_travel() -> None:
    """Texts of NumPy, alone or in a list, were kept as they were, and no message could carry them."""
    given_ = Example(
        classes=list(np.unique(["b", "a"])), rounds=np.int64(2), rule=np.str_("two"), note=np.str_("n")
    )
    assert msgspec.msgpack.encode(given_.terms())


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        ({"rounds": 500}, 500),
        ({"rounds": np.int64(3)}, 3),
        ({"rate": 1}, 1.0),
        ({"rate": np.float32(0.5)}, 0.5),
        ({"rate": np.array(0.5)}, 0.5),
        ({"colour": {"name": "mixed", "red": np.float64(1), "green": np.array(2)}}, Mixed(red=1.0, green=2)),
        ({"rule": "two"}, "two"),
        ({"classes": ["a", "b"]}, ("a", "b")),
        ({"classes": None}, None),
        ({"colour": "mixed"}, Mixed()),
        ({"colour": {"name": "mixed", "red": 1}}, Mixed(red=1.0)),
        ({"colour": Mixed(green=2)}, Mixed(green=2)),
        ({"fast": np.bool_(True)}, True),
        ({"classes": np.array(["a", "b"])}, ("a", "b")),
        ({"classes": [np.str_("a"), "b"]}, ("a", "b")),
        ({"rule": np.str_("two")}, "two"),
        ({"trim": 0}, 0.0),
        ({"trim": "auto"}, "auto"),
    ],
)
def test_what_fits_is_kept_as_its_type_says(given_: dict[str, Any], kept: Any) -> None:
    name = next(iter(given_))
    found = getattr(Example(**given_), name)
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"rounds": 0}, "rounds=0 given; wanted a whole number from 1 to 500"),
        ({"rounds": 501}, "rounds=501 given; wanted a whole number from 1 to 500"),
        ({"rounds": 1.0}, "rounds=1.0 given; wanted a whole number from 1 to 500"),
        ({"rounds": True}, "rounds=True given; wanted a whole number"),
        ({"rounds": "3"}, "rounds='3' given; wanted a whole number"),
        ({"rounds": None}, "rounds=None given; wanted a whole number"),
        ({"rate": 0}, "rate=0 given; wanted a number above 0"),
        ({"rate": math.nan}, "rate=nan given; wanted a number above 0"),
        ({"rate": math.inf}, "rate=inf given; wanted a number above 0"),
        ({"rate": "0.1"}, "rate='0.1' given; wanted a number"),
        ({"rate": False}, "rate=False given; wanted a number"),
        ({"rule": "three"}, "rule='three' given; wanted one of 'one', 'two'"),
        ({"rule": 1}, "rule=1 given; wanted one of 'one', 'two'"),
        (
            {"classes": ("a",)},
            "wanted a list of texts that are one line each and all different, 2 of them or more or None",
        ),
        ({"classes": ("a", "a")}, "all different"),
        ({"classes": ("a", "")}, "one line each"),
        ({"classes": ("a", "b\nc")}, "one line each"),
        ({"classes": "ab"}, "wanted a list of texts"),
        ({"classes": ("a", 2)}, "wanted a list of texts"),
        ({"colour": "blue"}, "colour='blue' is unknown; there are: plain, mixed"),
        ({"colour": 3}, r"colour=3 given; wanted a name (plain, mixed) or a table with a name"),
        ({"colour": {"red": 1.0}}, "wanted a name (plain, mixed) or a table with a name"),
        ({"colour": {"name": "mixed", "blue": 1}}, "colour: 'mixed' has no setting 'blue'; it has red, green"),
        ({"colour": {"name": "plain", "red": 1}}, "colour: 'plain' has no setting 'red'; it has none"),
        ({"colour": {"name": "mixed", "red": 2}}, "red=2 given; wanted a number from 0 to 1"),
        ({"fast": 1}, "fast=1 given; wanted True or False"),
        ({"trim": "most"}, "trim='most' given; wanted a number from 0 to 1 or one of 'auto'"),
        ({"trim": 1.5}, "trim=1.5 given; wanted a number from 0 to 1 or one of 'auto'"),
        ({"note": 3}, "note=3 given; wanted a text"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_given_and_what_is_wanted(
    given_: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        Example(**given_)
    assert message in str(caught.value)


@given(st.floats(), st.floats(-5, 5), st.floats(-5, 5), st.booleans(), st.booleans())
def test_bounds_are_those_of_an_interval(x: float, low: float, high: float, left: bool, right: bool) -> None:
    inside = (x > low if left else x >= low) and (x < high if right else x <= high)
    assert Between(low, high, open_low=left, open_high=right).allows(x) == inside


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (Between(1, 500), "from 1 to 500"),
        (Between(0, 1, open_high=True), "from 0 to 1 (excluded)"),
        (Between(0, 10, open_low=True), "from 0 (excluded) to 10"),
        (Between(2), "of at least 2"),
        (Between(0, open_low=True), "above 0"),
        (Between(high=3), "of at most 3"),
        (Between(high=3, open_high=True), "below 3"),
        (Distinct(3), "that are one line each and all different, 3 of them or more"),
    ],
)
def test_bounds_in_words(bounds: Any, words: str) -> None:
    assert str(bounds) == words


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "a whole number"),
        (float | None, "a number or None"),
        (tuple[int, ...], "a list of whole numbers"),
        (Literal["a", 1], "one of 'a', 1"),
        (Annotated[int, "a remark", Between(1)], "a whole number of at least 1"),
        (Colour, "one of plain, mixed"),
    ],
)
def test_types_in_words(kind: Any, words: str) -> None:
    assert wanted(kind) == words


def test_a_choice_that_may_be_left_away() -> None:
    assert read_value("x", None, Colour | None) is None
    assert read_value("x", "mixed", Colour | None) == Mixed()
    assert read_value("x", 3, Any) == 3
    with pytest.raises(InputError, match="x='blue' is unknown; there are: plain, mixed"):
        read_value("x", "blue", Colour | None)


# --- terms ---


def test_terms_are_plain_values_that_travel_and_give_the_settings_back() -> None:
    made = Example(rounds=3, classes=["x", "y"], colour=Mixed(red=0.25), trim=0)
    terms = made.terms()
    assert terms["colour"] == {"name": "mixed", "red": 0.25, "green": 1}
    assert Example().terms()["colour"] == "plain"
    assert list(terms) == ["rounds", "rate", "rule", "classes", "colour", "fast", "trim", "note"]
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(terms))
    assert Example.from_terms(travelled) == made
    assert Example.from_terms(msgspec.json.decode(msgspec.json.encode(terms))) == made


def test_terms_say_only_what_differs_if_they_like() -> None:
    assert Example.from_terms({}) == Example()
    assert Example.from_terms({"rounds": 2}).rounds == 2


def test_an_unknown_term_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match="there is no setting 'round'; there are: rounds, rate, rule"):
        Example.from_terms({"round": 2})


# --- choices ---


def test_a_kind_of_choice_knows_its_own_and_no_others() -> None:
    @dataclass(frozen=True)
    class Shape(Choice):
        kind: ClassVar[str] = "test shape"

    @dataclass(frozen=True)
    class Round(Shape):
        name: ClassVar[str] = "round"

    assert list(Shape.registry) == ["round"]
    assert list(Colour.registry) == ["plain", "mixed"]
    assert Shape.registry.group == "fedgeom.test shapes"
    with pytest.raises(InputError, match="there are: plain, mixed"):
        Colour.read("round", "colour")


def test_a_name_is_taken_once() -> None:
    with pytest.raises(InputError, match="there is a test colour 'plain' already"):

        @dataclass(frozen=True)
        class AnotherPlain(Colour):
            name: ClassVar[str] = "plain"


def test_a_choice_checks_its_own_settings() -> None:
    with pytest.raises(InputError, match="green=10 given; wanted a whole number from 0 to 9"):
        Mixed(green=10)
    assert Mixed(red=np.float64(1)).plain() == {"name": "mixed", "red": 1.0, "green": 1}


def kinds_of(cls: type[Any]) -> list[type[Any]]:
    """Return the classes below one, which have a name or are the only one of their kind."""
    return [cls, *(one for below in cls.__subclasses__() for one in kinds_of(below))]


NEEDED: dict[str, Any] = {
    "epsilon": 1.0, "clip": 1.0, "n_rounds": 1, "n_groups": 3, "columns": ("a",), "site": "a", "network": "mlp",
}  # fmt: skip
"""What settings that have no default are given, wherever they occur."""


def settled() -> list[type[Any]]:
    """Return every method, and every choice that is a setting."""
    methods = [
        one for one in METHODS.values() if one.__module__.startswith("fedgeom.")
    ]  # loads what they choose from
    choices = [one for one in kinds_of(Choice)[1:] if one.__module__.startswith("fedgeom.")]
    # An inner algorithm's settings are checked where it is built, with the settings of the run.
    return [*methods, *(one for one in choices if one is not InnerAlgorithm)]


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan], ids=str)
def test_no_setting_of_any_method_or_choice_is_infinite_or_nan(bad: float) -> None:
    """Terms are shown as JSON, which has neither: a steward would see null."""
    tried = 0
    for cls in settled():
        for field in dataclasses.fields(cls):
            for value in (bad, [bad], [1.0, bad], {"a": bad}, {"a": (0.0, bad)}, np.float64(bad), np.array([bad])):
                needed = {
                    one.name: NEEDED[one.name]
                    for one in dataclasses.fields(cls)
                    if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
                }
                with pytest.raises(InputError):
                    cls(**needed | {field.name: value})
                tried += 1
    assert tried > 1000


def test_what_is_wrong_with_infinity_is_said() -> None:
    with pytest.raises(
        InputError, match=r"lam=inf given; wanted a number .*No setting is inf or nan.*take a finite"
    ):
        fedgeom.Ditto(lam=math.inf)
    with pytest.raises(InputError, match="mu=inf given"):
        fedgeom.XCLPTraining(algorithm={"name": "fedprox", "mu": math.inf})
    with pytest.raises(InputError, match="given; wanted a number"):
        fedgeom.Ditto(lam=10**400)

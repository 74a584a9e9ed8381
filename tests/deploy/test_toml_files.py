"""Settings that people edit: any text survives quoting, and errors name the file."""

from __future__ import annotations

import tomllib
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.deploy.config import convert, quote, read_toml
from fedgeom.errors import InputError


class Part(msgspec.Struct, forbid_unknown_fields=True):
    mode: Literal["ask", "any"] = "ask"


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    mode: Literal["ask", "any"] = "ask"
    share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    columns: str | list[str] | None = None
    parts: list[Part] = []


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    a: int


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_and_none_rules_a_terminal(text):
    assert quote(text).isprintable()
    assert tomllib.loads(f"x = {quote(text)}") == {"x": text}


def test_reading(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("a = 1  # a remark")
    assert read_toml(file, Settings, "make it").a == 1


@pytest.mark.parametrize(
    ("content", "piece"),
    [(b"a = ", "Invalid"), (b'a = "x"', "whole number"), (b"b = 1", "b"), (b"a = \xff", "utf-8")],
)
def test_errors_name_the_file(tmp_path, content, piece):
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"settings\.toml.*{piece}"):
        read_toml(file, Settings, "make it")


def test_a_missing_file_says_how_to_make_it(tmp_path):
    with pytest.raises(InputError, match="does not exist; make it with: fedgeom site init"):
        read_toml(tmp_path / "none", Settings, "fedgeom site init")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"mode": "asks"}, "mode = 'asks' given; wanted one of 'ask', 'any'. Did you mean 'ask'?"),
        ({"mode": 3}, "mode = 3 given; wanted one of 'ask', 'any'"),
        ({"share": 2}, "share = 2 given; wanted a number < 1.0"),
        ({"share": "x"}, "share = 'x' given; wanted a number"),
        ({"columns": 3}, "columns = 3 given; wanted a text or a list"),
        ({"columns": [3]}, "columns.number 1 = 3 given; wanted a text"),
        ({"parts": 3}, "parts = 3 given; wanted a list"),
        ({"parts": [{}, {"mode": "x"}]}, "parts.number 2.mode = 'x' given; wanted one of 'ask', 'any'"),
        ({"parts": [{"mod": "x"}]}, "there is no setting 'mod'; there are: mode. Did you mean 'mode'?"),
        ({"shar": 1}, "there is no setting 'shar'; there are: mode, share, columns, parts. Did you mean 'share'?"),
    ],
)
def test_errors_name_the_setting_what_was_given_and_the_choices(content: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(content, Whole)
    assert str(caught.value) == message

"""Settings that people edit: any text survives quoting, and errors name the file."""

from __future__ import annotations

import tomllib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.deploy.toml_files import quote, read_toml
from fedgeom.errors import InputError


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
    ("content", "piece"), [(b"a = ", "Invalid"), (b'a = "x"', "int"), (b"b = 1", "b"), (b"a = \xff", "utf-8")]
)
def test_errors_name_the_file(tmp_path, content, piece):
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"settings\.toml.*{piece}"):
        read_toml(file, Settings, "make it")


def test_a_missing_file_says_how_to_make_it(tmp_path):
    with pytest.raises(InputError, match="does not exist; make it with: fedgeom site init"):
        read_toml(tmp_path / "none", Settings, "fedgeom site init")

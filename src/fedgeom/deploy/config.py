"""Settings that people edit: TOML files, names of sites, addresses of coordinators."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from fedgeom.errors import InputError
from fedgeom.federation.settings import is_called_now
from fedgeom.memo import memoize
from fedgeom.registry import did_you_mean

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
DEFAULT_PORT = 8000
EngineName = Literal["nats"]
"""What carries questions between a coordinator and its sites; files of earlier releases name it."""


def check_name(name: str) -> str:
    """Return a site's name, or say which names are possible."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be a site's name; wanted letters, digits, '.', '_' and '-', such as 'charite'"
        )
    return name


def check_loopback(host: str) -> None:
    """Refuse an insecure federation anywhere but on this machine."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise InputError(f"an insecure federation works on this machine only; {host!r} is not a loopback address")


T = TypeVar("T")


def quote(text: str) -> str:
    """Return a text as a TOML string, which a JSON string is too; control characters are written out."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in plain)


def as_toml(value: Any) -> str:
    """Write a setting as a federation file has it.

    >>> as_toml({"name": "sgd", "momentum": 0.9, "rate": None}), as_toml([True, 2])
    ('{ name = "sgd", momentum = 0.9 }', '[true, 2]')
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {as_toml(one)}" for key, one in value.items() if one is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def convert(content: Any, kind: type[T]) -> T:
    """Return a file's content as a struct, with errors that name the setting, what was given and what is wanted."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InputError(_explain(str(error), content, kind)) from error


def _explain(message: str, content: Any, kind: Any) -> str:
    """Say of msgspec's complaint which setting it is about, what was given and what is wanted."""
    what, found, path = message.partition(" - at `$")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    steps = re.findall(r"\[(\d+)\]|\.([^.\[\]]+)", path.removesuffix("`"))
    value = content
    try:
        for number, name in steps:
            value = value[int(number)] if number else value[name]
            kind = get_args(kind)[0] if number else get_type_hints(kind)[name]
    except (LookupError, TypeError):  # where a path has no plain meaning, msgspec's own words
        return message
    if unknown and hasattr(kind, "__struct_fields__"):
        names = kind.__struct_fields__
        now = is_called_now(unknown[1], names)
        if now:
            return f"there is no setting {unknown[1]!r}; {now}"
        return (
            f"there is no setting {unknown[1]!r}; there are: {', '.join(names)}.{did_you_mean(unknown[1], names)}"
        )
    if not found:
        return message
    where = ".".join(name or f"number {int(number) + 1}" for number, name in steps)
    parts = (kind, *get_args(kind))  # a choice may be left out: then it stands in a union
    choices = [one for part in parts if get_origin(part) is Literal for one in get_args(part)]
    if choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        return (
            f"{where} = {value!r} given; wanted one of {', '.join(map(repr, choices))}{'.' if hint else ''}{hint}"
        )
    wanted = re.fullmatch(r"Expected `([^`]*)`(.*?)(, got .*)?", what)
    if not wanted:
        return message
    words = " or ".join(_WORDS.get(one, one) for one in wanted[1].split(" | ") if one != "null")
    return f"{where} = {value!r} given; wanted {words}{wanted[2]}"


def read_toml(path: Path, kind: type[T], maker: str) -> T:
    """Read a TOML file into a struct, with errors that name the file."""
    if not path.is_file():
        raise InputError(f"{path} does not exist; make it with: {maker}")
    try:
        return _read_toml(path.read_text(encoding="utf-8"), kind)
    except (tomllib.TOMLDecodeError, InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


@memoize(
    8
)  # a question is answered by way of several looks at the same file, and a fork begins with what was kept
def _read_toml(text: str, kind: type[T]) -> T:
    content: Any = tomllib.loads(text)
    return convert(content, kind)

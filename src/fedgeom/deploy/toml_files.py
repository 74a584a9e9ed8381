"""Settings that people edit: reading TOML with errors that name the file, and quoting text for it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedgeom.errors import InputError

T = TypeVar("T")


def quote(text: str) -> str:
    """Return a text as a TOML string, which a JSON string is too; control characters are written out."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in plain)


def read_toml(path: Path, kind: type[T], maker: str) -> T:
    """Read a TOML file into a struct, with errors that name the file."""
    if not path.is_file():
        raise InputError(f"{path} does not exist; make it with: {maker}")
    try:
        content: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(content, kind)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error

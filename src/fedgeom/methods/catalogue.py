"""Finding methods by name, and reading the models that they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fedgeom.methods  # noqa: F401  # registers those that come with fedgeom
from fedgeom.errors import InputError
from fedgeom.federation import model as model_file
from fedgeom.federation.method import METHODS, Method


def method_class(name: str) -> type[Method]:
    """Return the class of a method by its name: one of ours, of another package, or defined in this process."""
    found = METHODS.find(name)
    if not isinstance(found, type) or not issubclass(found, Method):
        raise InputError(f"the method {name!r} is a {type(found).__name__}; wanted a subclass of fedgeom.Method")
    return found


def load_model(path: str | Path) -> Any:
    """Read a model file that some run saved; for the folder of a run, its joint model."""
    file = Path(path)
    if file.is_dir():
        file = file / "model.safetensors"
    if not file.is_file():
        raise InputError(f"{file} does not exist; wanted a model file, such as RUN/model.safetensors")
    return read_model(file.read_bytes())


def read_model(data: bytes) -> Any:
    """Build a model from the bytes of its file."""
    name, arrays, facts = model_file.from_bytes(data)
    return method_class(name).model_type.from_file(arrays, facts)

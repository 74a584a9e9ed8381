"""What a run yields: the contract of all models, and their files (safetensors with a few plain facts; no pickle)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.storage import write_file

FORMAT = "fedgeom-model/1"

Tensors = dict[str, npt.NDArray[Any]]
"""A model file's arrays, by name."""
Facts = dict[str, Any]
"""What else a model file says: text, numbers, lists of these."""


class Model(ABC):
    """Something that predicts, for everybody or for one site, and can be saved without pickles.

    Models that give probabilities have `predict_proba` too: (rows, classes), rows summing to 1.
    """

    method: str
    """The name of the method that yields it."""

    @abstractmethod
    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return a class for each row of X, (rows, columns): in the joint words, or the site's (see `for_site`)."""

    def tensors(self) -> tuple[Tensors, Facts]:
        """Return the arrays and the plain facts that make up the model file: of a dataclass, its fields."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.init}  # type: ignore[arg-type]
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        facts = {name: value for name, value in values.items() if name not in arrays and value is not None}
        return arrays, {name: list(v) if isinstance(v, tuple) else v for name, v in facts.items()}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Build the model from a file's content: of a dataclass, its fields."""
        try:
            return cls(**arrays, **{name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()})
        except TypeError as error:
            raise InputError(f"the file holds no {cls.__name__}: {error}") from error

    def for_site(self, local: Mapping[str, Any]) -> Model:
        """Return the model as one site uses it, from what the site learnt (``run.local[site]``).

        It answers in the site's own words, or is the site's personal model. A model that is the same for all sites
        returns itself.
        """
        return self

    @property
    def everywhere(self) -> bool:
        """Whether the joint model predicts by itself, without `for_site`."""
        return True

    @property
    def in_disc(self) -> bool:
        """Whether rows become points of the Poincaré disc (``to_disc``), so that the model can be drawn there."""
        return False

    def to_bytes(self) -> bytes:
        """Return the model file's bytes; the same model always gives the same."""
        return to_bytes(self.method, *self.tensors())

    def save(self, path: str | Path) -> None:
        """Write the model to a safetensors file; read it back with `fedgeom.load_model`."""
        write_file(path, self.to_bytes())

    def summary(self) -> str:
        """Return a line for people: what kind of model it is, and how large."""
        arrays, facts = self.tensors()
        size = sum(int(np.size(array)) for array in arrays.values())
        names = facts.get("names") or facts.get("classes")
        count = len(names) if isinstance(names, list) else names
        classes = f"{count} classes, " if count else ""
        return f"{self.method}, {classes}{size:,} numbers"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_html_(self) -> str:
        return f"<b>{type(self).__name__}</b> {escape(self.summary())}"


def to_bytes(method: str, tensors: Tensors, facts: Facts) -> bytes:
    """Encode a model file's content; the same content always gives the same bytes."""
    from safetensors.numpy import save  # 20 ms, and only where models are written

    # One entry only: the library writes several in no particular order.
    note = {"fedgeom": msgspec.json.encode([FORMAT, method, facts], order="sorted").decode()}
    ordered = {key: np.asarray(tensors[key], order="C") for key in sorted(tensors)}
    return bytes(save(ordered, metadata=note))


def from_bytes(data: bytes) -> tuple[str, Tensors, Facts]:
    """Decode a model file into its method's name, arrays and facts."""
    from safetensors import SafetensorError  # 20 ms, and only where models are read
    from safetensors.numpy import load

    try:
        tensors = load(data)
        size = int.from_bytes(data[:8], "little")
        note = msgspec.json.decode(data[8 : 8 + size])["__metadata__"]["fedgeom"]
        format, method, facts = msgspec.json.decode(note, type=tuple[str, str, dict[str, Any]])
        if format != FORMAT:
            raise InputError(f"the model file has format {format!r}; this version reads {FORMAT!r}")
        return method, tensors, facts
    except (SafetensorError, KeyError, msgspec.DecodeError) as error:
        raise InputError(f"this is not a fedgeom model file ({error})") from error

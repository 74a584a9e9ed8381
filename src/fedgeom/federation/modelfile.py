"""Model files: safetensors with a few plain facts beside the arrays. No pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError

FORMAT = "fedgeom-model/1"

Tensors = dict[str, npt.NDArray[Any]]


def to_bytes(method: str, tensors: Tensors, facts: dict[str, Any]) -> bytes:
    """Encode a model; the same model always gives the same bytes."""
    from safetensors.numpy import save

    # One entry only: the library writes several in no particular order.
    note = {"fedgeom": msgspec.json.encode([FORMAT, method, facts], order="sorted").decode()}
    ordered = {key: np.ascontiguousarray(tensors[key]) for key in sorted(tensors)}
    return bytes(save(ordered, metadata=note))


def from_bytes(data: bytes) -> tuple[str, Tensors, dict[str, Any]]:
    """Decode a model into its method's name, arrays and facts."""
    from safetensors import SafetensorError
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


def write(path: str | Path, data: bytes) -> None:
    """Write a model file so that a crash leaves the old one or the new one, never half of one."""
    target = Path(path)
    draft = target.with_name(target.name + ".part")
    draft.write_bytes(data)
    draft.replace(target)

"""What a run of label propagation leaves with the coordinator: the classes; labels are at the sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.federation import modelfile


@dataclass(frozen=True)
class XclpModel:
    """Label propagation over pairs yields labels at the sites, not a model: the coordinator has no rows."""

    classes: tuple[str, ...]

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Explain where the labels are."""
        raise InputError(
            "label propagation over pairs leaves no model with the coordinator; each site has its rows' "
            'labels in run.labels[name]. For a model that predicts new rows use XCLP(graph="anchors")'
        )

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the facts of the model file."""
        return {"none": np.zeros(1)}, {"classes": list(self.classes)}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> XclpModel:
        """Build the model from a file's content."""
        return cls(tuple(facts["classes"]))

    def save(self, path: str | Path) -> None:
        """Write the model to a safetensors file."""
        modelfile.write(path, modelfile.to_bytes("xclp", *self.tensors()))

"""The methods, by name; each is loaded when it is used."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fedgeom.errors import InputError
from fedgeom.federation import modelfile
from fedgeom.federation.method import Method

METHODS = {
    "hulls": ("fedgeom.methods.hulls.method", "Hulls", "fedgeom.methods.hulls.model", "HullModel"),
    "moments": ("fedgeom.methods.moments.method", "Moments", "fedgeom.methods.moments.model", "MomentsModel"),
    "xclp": ("fedgeom.methods.xclp.method", "XCLP", "fedgeom.methods.xclp.model", "XclpModel"),
    "ptopofl": ("fedgeom.methods.ptopofl.method", "PTopoFL", "fedgeom.methods.ptopofl.model", "TopoModel"),
    "shrunk": ("fedgeom.methods.shrunk.method", "Shrunk", "fedgeom.training.model", "TrainedModel"),
    **{
        name: (f"fedgeom.training.rows.{module}", cls, "fedgeom.training.model", "TrainedModel")
        for name, module, cls in (
            ("fedavg", "fedavg", "FedAvg"),
            ("fedprox", "fedprox", "FedProx"),
            ("scaffold", "scaffold", "Scaffold"),
            ("feddyn", "feddyn", "FedDyn"),
            ("fedadam", "fedopt", "FedAdam"),
            ("fedyogi", "fedopt", "FedYogi"),
            ("ditto", "ditto", "Ditto"),
            ("pfedme", "pfedme", "PFedMe"),
            ("fedper", "fedper", "FedPer"),
            ("local", "local_only", "LocalOnly"),
            ("interpolated", "interpolated", "Interpolated"),
        )
    },
}
"""For each method: where its class is, and where the class of its models is."""


def method_class(name: str) -> type[Method]:
    """Return the class of a method by its name."""
    module, cls, _, _ = _entry(name)
    found: type[Method] = getattr(importlib.import_module(module), cls)
    return found


def load_model(path: str | Path) -> Any:
    """Read a model file that some run saved."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file} does not exist; wanted a model file, such as RUN/model.safetensors")
    name, arrays, facts = modelfile.from_bytes(file.read_bytes())
    _, _, module, cls = _entry(name)
    return getattr(importlib.import_module(module), cls).from_tensors(arrays, facts)


def _entry(name: str) -> tuple[str, str, str, str]:
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]

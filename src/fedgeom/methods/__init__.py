"""The methods, by name; each is loaded when it is used."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from fedgeom.errors import InputError
from fedgeom.federation import modelfile
from fedgeom.federation.method import Method

GROUP = "fedgeom.methods"
"""Other packages add methods by entry points of this group: a name, and where the class is."""

METHODS = {
    "hulls": ("fedgeom.methods.hulls.method", "Hulls", "fedgeom.methods.hulls.model", "HullModel"),
    "moments": ("fedgeom.methods.moments.method", "Moments", "fedgeom.methods.moments.model", "MomentsModel"),
    "xclp": ("fedgeom.methods.xclp.method", "XCLP", "fedgeom.methods.xclp.model", "XclpModel"),
    "ptopofl": ("fedgeom.methods.ptopofl.method", "PTopoFL", "fedgeom.methods.ptopofl.model", "TopoModel"),
    "shrunk": ("fedgeom.methods.shrunk.method", "Shrunk", "fedgeom.methods.iterative.model", "TrainedModel"),
    **{
        name: (
            f"fedgeom.methods.iterative.algorithms.{module}",
            cls,
            "fedgeom.methods.iterative.model",
            "TrainedModel",
        )
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
"""For each method: where its class is, and where the class of its models is (empty: the class says so itself)."""

for _point in entry_points(group=GROUP):
    METHODS.setdefault(_point.name, (_point.module, _point.attr, "", ""))


def method_class(name: str) -> type[Method]:
    """Return the class of a method by its name."""
    defined = _defined_here(name)
    if defined is not None:
        return defined
    module, cls, _, _ = _entry(name)
    found: type[Method] = getattr(importlib.import_module(module), cls)
    if found.name != name:
        raise InputError(f"{module}.{cls} calls itself {found.name!r}, but was installed as the method {name!r}")
    return found


def load_model(path: str | Path) -> Any:
    """Read a model file that some run saved."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file} does not exist; wanted a model file, such as RUN/model.safetensors")
    name, arrays, facts = modelfile.from_bytes(file.read_bytes())
    module, cls = ("", "") if _defined_here(name) else _entry(name)[2:]
    model = getattr(importlib.import_module(module), cls) if module else method_class(name).model_type  # type: ignore[attr-defined]
    return model.from_tensors(arrays, facts)


def _defined_here(name: str) -> type[Method] | None:
    """Return a row of the training table that some other package, or a notebook, defined in this process."""
    from fedgeom.methods.iterative.tabular import DEFINED

    return None if name in METHODS else DEFINED.get(name)


def _entry(name: str) -> tuple[str, str, str, str]:
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]

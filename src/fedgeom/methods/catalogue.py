"""Finding methods by name, and reading the models that they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import fedgeom.methods  # noqa: F401  # registers those that come with fedgeom
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation import model as model_file
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.record import read_status

MODEL = "model.safetensors"
"""The joint model in a run's folder."""


def method_class(name: str) -> type[Method]:
    """Return the class of a method by its name: one of ours, of another package, or defined in this process."""
    found = METHODS.find(name)
    if not isinstance(found, type) or not issubclass(found, Method):
        raise InputError(f"the method {name!r} is a {type(found).__name__}; wanted a subclass of fedgeom.Method")
    return found


def as_method(method: Any) -> Method:
    """Return a method with its settings, given that, its class or its name; the latter two have the defaults."""
    if isinstance(method, Method):
        return method
    if isinstance(method, str):
        return method_class(method)()
    if isinstance(method, type) and issubclass(method, Method):
        return method()
    raise InputError(
        f"method={method!r} given; wanted a method with its settings, such as fedgeom.Hulls(), or for the default "
        f"settings its name: {METHODS}"
    )


def load_model(path: str | Path) -> Any:
    """Read a model that a run saved.

    Parameters
    ----------
    path: a path
        The model file, or the folder of a run: then its joint model.

    Returns
    -------
    Model
    """
    file = Path(path)
    if file.is_dir():
        file = _model_in(file)
    if not file.is_file():
        raise InputError(
            f"{file} does not exist; wanted a run's folder, such as runs/NAME-1, or a model file, such as "
            "runs/NAME-1/model.safetensors"
        )
    return read_model(file.read_bytes())


def _model_in(folder: Path) -> Path:
    """Return the model file of a run's folder, or say why there is none."""
    file = folder / MODEL
    if file.is_file():
        return file
    if (folder / "config.json").is_file():  # a run, which did not come to its end
        status = read_status(folder)
        why = ": ".join(one for one in (status.state, status.detail.partition("\n")[0]) if one)
        raise InputError(f"the run in {folder} left no {MODEL} (status {why}); finish it, or run it again")
    found = [*folder.glob(f"*/{MODEL}"), *folder.glob(f"*/*/{MODEL}")]  # the latter: a site's, or a coordinator's
    inside = sorted(one.parent.relative_to(folder).as_posix() for one in found)
    hint = f"; there is one in {', '.join(inside[:8])}" if inside else ""
    raise InputError(f"the folder {folder} has no {MODEL}, so it is no finished run's{hint}")


def read_model(data: bytes) -> Any:
    """Build a model from the bytes of its file; one whose parts do not fit together raises `InputError`."""
    name, arrays, facts = model_file.from_bytes(data)
    model = method_class(name).model_type.from_file(arrays, facts)
    numbers = sum(array.size for array in arrays.values())
    if type(model).__module__.startswith("fedgeom."):  # of others we do not know which rows they take
        _try_out(model, max(numbers, LEAST_COLUMNS))
    return model


LEAST_COLUMNS = 4096
"""A model of so many columns is tried out; one of more, if its file has as many numbers as it says columns."""


ROWS_TRIED = 7
"""With one row, arrays of a wrong shape may fit by broadcasting."""


def _try_out(model: Any, most: int) -> None:
    """Let a model predict rows of zeros: a spoilt one is better refused when it is read than when it is needed."""
    try:
        width = model.width if model.preparation is None else model.preparation.raw.width
        if width is not None and width <= most:
            with np.errstate(all="ignore"):
                rows = np.zeros((ROWS_TRIED, width))
                model.predict(rows)
                if hasattr(model, "predict_proba"):
                    _, columns = model.predict_proba(rows).shape
                    if columns != len(model.classes_):
                        raise ValueError(f"{columns} probabilities for {len(model.classes_)} classes")
    except (FedgeomError, ImportError):  # not every row can be predicted, by every model, and everywhere
        pass
    except Exception as error:  # numpy says in many ways that parts do not fit
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"the file holds no model that can predict ({why[:200]})") from error

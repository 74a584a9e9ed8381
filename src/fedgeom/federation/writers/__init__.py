"""Writers: what is known of a run, beside its folder's own files, for programs that others look at runs with."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedgeom.errors import InputError
from fedgeom.registry import Registry

log = logging.getLogger(__name__)


class Writer(ABC):
    """Writes what comes of one run."""

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, folder: Path, config: Mapping[str, Any]):
        """Begin, in the run's folder, with what config.json has; a resumed run tells everything once more."""

    @abstractmethod
    def value(self, name: str, number: float, step: int) -> None:
        """Write one number: of a round, counted from 1, or of the whole run, with step 0."""

    @abstractmethod
    def close(self, state: str) -> None:
        """End: the run is "finished", "failed" or "interrupted"."""


WRITERS = Registry("writer", "fedgeom.writers")
WRITERS.offer("tensorboard", "fedgeom.federation.writers.tensorboard:TensorBoardWriter", needs="tensorboard")
WRITERS.offer("mlflow", "fedgeom.federation.writers.mlflow:MLflowWriter", needs="mlflow")


def check_writers(names: Sequence[str]) -> None:
    """Refuse names of writers that there are none of, or that need what is not installed, before a run begins."""
    if isinstance(names, str):
        raise InputError(f"writers={names!r} given; wanted a list of names, such as [{names!r}]")
    for name in names:
        try:
            WRITERS.find(name, what="writers")
        except InputError as error:
            known = name in ("tensorboard", "mlflow")
            raise InputError(f"{error}: pip install 'fedgeom[{name}]'" if known else str(error)) from error


class Writers:
    """All writers of a run. One that fails is left out from there on: it must not cost the run."""

    def __init__(self, names: Sequence[str], folder: Path, config: Mapping[str, Any]):
        check_writers(names)
        self._open: dict[str, Writer] = {}
        for name in names:
            self._open[name] = WRITERS.find(name)(folder, config)

    def round(self, figures: Mapping[str, float]) -> None:
        """Write a round's figures."""
        step = int(figures.get("round", 0))
        self._each(
            lambda one: [
                one.value(f"round/{key}", value, step) for key, value in figures.items() if key != "round"
            ]
        )

    def metric(self, name: str, value: Any) -> None:
        """Write a metric of the run: a number, or a list of numbers, one for each round."""
        self._each(lambda one: [one.value(f"run/{name}", number, step) for number, step in _numbers(value)])

    def evaluation(self, scores: Sequence[tuple[str, str, float]]) -> None:
        """Write the figures of the test: model, metric, value."""
        self._each(lambda one: [one.value(f"test/{model}/{metric}", value, 0) for model, metric, value in scores])

    def close(self, state: str) -> None:
        """End all."""
        self._each(lambda one: one.close(state))
        self._open.clear()

    def _each(self, write: Callable[[Writer], Any]) -> None:
        for name, one in list(self._open.items()):
            try:
                write(one)
            except Exception as error:
                log.warning("the writer %r failed and is left out of this run: %s", name, error)
                del self._open[name]


def _numbers(value: Any) -> Iterator[tuple[float, int]]:
    """Yield the numbers in a metric with their steps; texts and tables have none."""
    listed = isinstance(value, list | tuple | np.ndarray)
    for step, one in enumerate(value if listed else [value], int(listed)):
        if isinstance(one, int | float | np.integer | np.floating) and not isinstance(one, bool):
            yield float(one), step

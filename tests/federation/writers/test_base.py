"""What writers are told, and that one which fails costs nothing but itself."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.federation.writers import WRITERS, Writer, check_writers
from fedgeom.testing.rehearsal import example_sites

TRAINED = fedgeom.FedAvg(n_rounds=3, epochs=1, validation_fraction=0.25, holdout=0.25)


class Telling(Writer):
    """Remembers what it was told."""

    name: ClassVar[str] = "telling"
    told: ClassVar[list[Any]] = []

    def __init__(self, folder: Path, config: Any):
        self.told[:] = [("begin", folder.name, config["method"])]

    def value(self, name: str, number: float, step: int) -> None:
        self.told.append((name, number, step))

    def close(self, state: str) -> None:
        self.told.append(state)


class Failing(Telling):
    name: ClassVar[str] = "failing"

    def value(self, name: str, number: float, step: int) -> None:
        raise OSError("no room")


@pytest.fixture(autouse=True)
def known():
    WRITERS.add("telling", Telling)
    WRITERS.add("failing", Failing)
    yield
    for name in ("telling", "failing"):
        WRITERS._known.pop(name)


def test_rounds_metrics_and_the_test_of_a_run(tmp_path):
    run = fedgeom.run(TRAINED, example_sites(rows=40), record=tmp_path / "r", writers=["telling"])
    told = Telling.told
    assert told[0] == ("begin", "r", "fedavg")
    assert told[-1] == "finished"
    steps = [step for name, _, step in told[1:-1] if name == "round/joint_accuracy"]
    assert steps == [1, 2, 3]
    values = {(name, step): value for name, value, step in told[1:-1]}
    assert values["test/own/accuracy", 0] == run.evaluation["own"].accuracy.value
    assert values["run/sites", 0] == 4
    assert [values["run/loss on rows set aside", at] for at in (1, 2, 3)] == run.metrics["loss on rows set aside"]
    assert all(np.isfinite(value) for value in values.values())


def test_one_that_fails_is_left_out_and_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "fedgeom"):
        run = fedgeom.run(TRAINED, example_sites(rows=40), record=tmp_path / "r", writers=["failing"])
    assert caplog.text.count("'failing' failed and is left out of this run: no room") == 1
    assert run.model.to_bytes() == fedgeom.run(TRAINED, example_sites(rows=40)).model.to_bytes()


def test_a_run_that_ends_badly_says_so(tmp_path):
    with pytest.raises(fedgeom.FedgeomError):
        fedgeom.run(
            TRAINED, example_sites(), record=tmp_path / "r", writers=["telling"], interfere=lambda *_: "gone"
        )
    assert Telling.told[-1] == "failed"


def test_what_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="wanted a list of names"):
        check_writers("mlflow")
    with pytest.raises(InputError, match="writers='tensorbord' is unknown"):
        fedgeom.run(TRAINED, example_sites(), record=tmp_path / "r", writers=["tensorbord"])
    assert not (tmp_path / "r").exists()
    with pytest.raises(InputError, match="need record"):
        fedgeom.run(TRAINED, example_sites(), writers=["telling"])
    monkeypatch.setattr("fedgeom.registry.find_spec", lambda name: None)
    monkeypatch.setattr(WRITERS, "_known", {})
    with pytest.raises(InputError, match=r"'mlflow', which is not installed: pip install 'fedgeom\[mlflow\]'"):
        check_writers(["mlflow"])

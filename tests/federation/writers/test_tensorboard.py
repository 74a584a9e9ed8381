"""Event files that TensorBoard itself reads."""

from __future__ import annotations

import pytest

pytest.importorskip(
    "tensorboard", reason="TensorBoard is not installed; it comes with the extra fedgeom[tensorboard]"
)

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import fedgeom
from fedgeom.testing.rehearsal import example_sites

TRAINED = fedgeom.FedAvg(n_rounds=3, epochs=1, validation_fraction=0.25, holdout=0.25)


def test_what_tensorboard_reads_is_what_the_record_has(tmp_path):
    folder = tmp_path / "run"
    run = fedgeom.run(TRAINED, example_sites(rows=40), record=folder, resume=True, writers=["tensorboard"])
    (file,) = (folder / "tensorboard").iterdir()
    found = {
        (value.tag, event.step): value.tensor.float_val[0]
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    }
    assert [found["round/joint_loss", at] for at in (1, 2, 3)] == pytest.approx(
        run.metrics["loss on rows set aside"]
    )
    assert found["test/own/accuracy", 0] == pytest.approx(run.evaluation["own"].accuracy.value)
    assert {step for name, step in found if name == "round/personal_accuracy"} == {1, 2, 3}

"""A database that MLflow itself reads, and nothing told to anybody."""

from __future__ import annotations

import pytest

pytest.importorskip("mlflow", reason="MLflow is not installed; it comes with the extra fedgeom[mlflow]")
pytest.importorskip(
    "sqlalchemy", reason="MLflow's database needs sqlalchemy; it comes with the extra fedgeom[mlflow]"
)

import fedgeom
from fedgeom.testing.rehearsal import example_sites

TRAINED = fedgeom.FedAvg(n_rounds=3, epochs=1, validation_fraction=0.25, holdout=0.25)


def test_what_mlflow_reads_is_what_the_record_has_and_telemetry_is_off(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking.invalid")  # the store is a file whatever this says
    folder = tmp_path / "run"
    run = fedgeom.run(TRAINED, example_sites(rows=40), record=folder, writers=["mlflow"])
    from mlflow import MlflowClient
    from mlflow.telemetry.client import get_telemetry_client

    assert get_telemetry_client() is None
    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")
    (kept,) = client.search_runs([client.get_experiment_by_name("fedgeom").experiment_id])
    assert kept.info.status == "FINISHED"
    assert kept.data.params["method"] == "fedavg"
    assert kept.data.params["n_rounds"] == "3"
    history = client.get_metric_history(kept.info.run_id, "round/joint_loss")
    assert [(one.step, one.value) for one in history] == [
        (at + 1, pytest.approx(loss)) for at, loss in enumerate(run.metrics["loss on rows set aside"])
    ]
    assert kept.data.metrics["test/own/accuracy"] == run.evaluation["own"].accuracy.value

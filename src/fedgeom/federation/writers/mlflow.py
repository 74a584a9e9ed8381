"""A database for MLflow: ``mlflow ui --backend-store-uri sqlite:///runs/study-1/mlflow/mlflow.db``.

MLflow's telemetry is turned off. The store is always a file, whatever tracking server the environment names.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from fedgeom.federation.writers import Writer
from fedgeom.storage import as_plain, make_private_folder

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"

from mlflow import MlflowClient
from mlflow.telemetry.client import set_telemetry_client

set_telemetry_client()  # where MLflow was imported before, it reads the environment again

LONGEST = 500
"""How many characters of a setting are kept."""
STATES = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


class MLflowWriter(Writer):
    """Writes settings and figures to ``mlflow/mlflow.db`` in the run's folder."""

    name: ClassVar[str] = "mlflow"

    def __init__(self, folder: Path, config: Mapping[str, Any]):
        inner = folder / "mlflow"
        if inner.exists():  # what a run that broke off had written comes once more
            shutil.rmtree(inner)
        make_private_folder(inner)
        self._client = MlflowClient(tracking_uri=f"sqlite:///{(inner / 'mlflow.db').resolve()}")
        artifacts = (inner / "artifacts").resolve().as_uri()
        experiment = self._client.create_experiment("fedgeom", artifact_location=artifacts)
        self._run = self._client.create_run(experiment, run_name=folder.name).info.run_id
        settings = {"method": config.get("method"), "seed": config.get("seed"), **config.get("parameters", {})}
        for name, value in settings.items():
            text = value if isinstance(value, str) else json.dumps(value, default=as_plain)
            self._client.log_param(self._run, name, text[:LONGEST])

    def value(self, name: str, number: float, step: int) -> None:
        """Write a metric."""
        self._client.log_metric(self._run, name, number, step=step)

    def close(self, state: str) -> None:
        """Say how the run ended."""
        self._client.set_terminated(self._run, STATES.get(state, "FAILED"))

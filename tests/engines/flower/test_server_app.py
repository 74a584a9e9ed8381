"""The coordinator's end: whoever conducts gets the job's name and the way to the nodes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed")

from flwr.app import Context, RecordDict

from fedgeom.engines.flower.apps import make_server_app


@pytest.mark.parametrize(("settings", "job"), [({"job": "study-1"}, "study-1"), ({}, "")])
def test_the_job_is_the_one_that_the_runs_settings_name(settings: dict[str, Any], job: str) -> None:
    conducted: list[tuple[str, object]] = []
    grid: Any = object()
    app = make_server_app(lambda name, there: conducted.append((name, there)))
    app(grid, Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=settings))
    assert conducted == [(job, grid)]

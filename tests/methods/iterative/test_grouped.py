"""Training in drawn groups, as the coordinator sees it: one whose sum is beyond its bounds is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.methods.iterative import GroupMedian
from fedgeom.methods.iterative.messages import TrainGroup
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.testing import example_sites

SITES = example_sites(12, rows=12)


def test_a_sum_beyond_its_bounds_costs_a_group_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = TrainingSite.contribute

    def contribute(self: Any, ask: Any, values: Any, **options: Any) -> Any:
        made = honest(self, ask, values, **options)
        if self.name == "site-5" and ask.kind == TrainGroup.kind and ask.round == 1:
            made.vector[0] += np.uint64(6 << 28)  # 6 in the first of two numbers
        return made

    monkeypatch.setattr(TrainingSite, "contribute", contribute)
    method = fedgeom.FedAvg(n_rounds=3, epochs=1, max_abs_change=5.0, aggregation=GroupMedian(n_groups=4))
    found = fedgeom.run(method, SITES)
    assert len(found.metrics["groups dropped"]) == 1
    said = " ".join(map(str, found.warnings))
    assert "site-5" in said
    assert "round 2: " in said
    assert "max_abs_change = 5" in said
    usual = fedgeom.FedAvg(n_rounds=3, epochs=1)
    agree = found.model.predict(SITES[0].X) == fedgeom.run(usual, SITES).model.predict(SITES[0].X)
    assert agree.mean() > 0.9


def test_groups_that_trained_on_nothing_have_no_say() -> None:
    sites = example_sites(9, rows=12)
    found = fedgeom.run(
        fedgeom.FedAvg(n_rounds=1, aggregation=GroupMedian(n_groups=3), validation_fraction=0.25), sites
    )
    assert found.metrics["groups"] == 3
    assert "loss on rows set aside" in found.metrics

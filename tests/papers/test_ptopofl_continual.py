"""The script on signatures over rounds: hospitals that change are found, clustered anew and learn faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from papers.ptopofl import continual
from papers.ptopofl.scenarios import scenario_a

pytestmark = pytest.mark.full

pytest.importorskip("gudhi")


def test_drift_in_every_reading_is_zero_for_signatures_that_stay() -> None:
    rng = np.random.default_rng(0)
    still = np.repeat(rng.normal(size=(4, 1, 48)), 5, axis=1)
    for values in continual.readings(still).values():
        np.testing.assert_allclose(values, 0.0, atol=1e-12)
    moved = still.copy()
    moved[2, 3:] += 1.0
    for values in continual.readings(moved).values():
        assert (np.flatnonzero(values > 1e-9) == [2]).all()


def test_hospitals_that_change_are_clustered_anew_and_learn_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = scenario_a(0, adversarial=0)
    method: Any = continual.rows(4)["pTopoFL, tracked"]
    names = {scenario.train[i].name for i in continual.CHANGED}
    quick: list[tuple[str, ...]] = []
    talk = type(method).conversation
    usual = talk.faster

    def faster(self: Any, members: Any) -> tuple[str, ...]:
        quick.append(usual(self, members))
        return quick[-1]

    monkeypatch.setattr(talk, "faster", faster)
    _, before = continual.held(continual.rows(2)["pTopoFL, tracked"], scenario, 0, 2)
    assert not any(quick)  # nobody before the change
    _, metrics = continual.held(method, scenario, 0, 2)
    assert {name for name, drift in metrics["drift"].items() if drift > continual.LIMIT} == names
    assert {name for one in quick for name in one} == names
    assert metrics["clusters"] != before["clusters"]


def test_the_change_reaches_the_rows_and_the_shape() -> None:
    site = scenario_a(1).train[0]
    after = continual.changed(site, 1)
    assert after.shape == site.X.shape
    assert not np.allclose(after, site.X)
    assert np.array_equal(after, continual.changed(fedgeom.SiteData("s", site.X, site.y), 1))

"""Training without masks is the training of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, PTopoFL
from fedgeom.methods.iterative import Algorithm
from fedgeom.methods.iterative.setup import scales
from tests.methods.iterative.algorithms.against_papers import SITES


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(participation=0.5, min_sites=3),
        FedAvg(validation_fraction=0.2, patience=2),
        PTopoFL(n_rounds=2, epochs=1),
    ],
)
def test_draws_rows_aside_and_groups_are_those_of_a_run(algorithm):
    if isinstance(algorithm, PTopoFL):
        pytest.importorskip("gudhi")
    run, plain = fedgeom.run(algorithm, SITES, seed=3), algorithm.plain(SITES, 3)
    assert plain.model.to_bytes() == run.model.to_bytes()
    np.testing.assert_array_equal(plain.local["s1"]["model"], run.local["s1"]["model"])


def test_scales():
    rows = np.vstack([site.X for site in SITES])
    for centre, spread in scales(FedAvg(), SITES):
        assert centre == pytest.approx(rows.mean(axis=0), abs=1e-5)
        assert spread == pytest.approx(rows.std(axis=0), abs=1e-5)
    for site, (centre, spread) in zip(SITES, scales(FedAvg(scale="site"), SITES), strict=True):
        assert centre == pytest.approx(site.X.mean(axis=0))
        assert spread == pytest.approx(site.X.std(axis=0))
    assert [(c.tolist(), s.tolist()) for c, s in scales(FedAvg(scale="none"), SITES)] == [([0, 0], [1, 1])] * 4


@dataclass(frozen=True, kw_only=True)
class InPlace(Algorithm):
    """Writes into what it is given, as a careless local step does."""

    name: ClassVar[str] = "test-in-place"

    def local(self, task, given, own):
        trained = task.fit(given["model"])
        given["model"]["weights"][:] = trained["weights"]
        return {"model": given["model"]}


def test_sites_of_a_plain_run_share_no_arrays():
    """They are in one process, but each is given a copy: one that spoilt the next one's would not be a site."""
    algorithm = InPlace(n_rounds=2, epochs=1)
    assert algorithm.plain(SITES).model.to_bytes() == fedgeom.run(algorithm, SITES).model.to_bytes()

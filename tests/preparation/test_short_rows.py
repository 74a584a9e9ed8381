"""Steps with privacy that shorten rows: what is learnt of depths, variances and components."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import fedgeom
from fedgeom import DP, Moments, SiteData
from fedgeom.preparation import PCA, LogCounts, Pipeline, SelectVariable, fit_plain

pytestmark = pytest.mark.usefixtures("fixed_noise")


def counts(name: str, rows: int = 200, columns: int = 12) -> SiteData:
    rng = np.random.default_rng([7, *name.encode()])
    y = rng.integers(0, 2, rows)
    rates = np.where(y[:, None] * (np.arange(columns) < 3), 20.0, 4.0) * rng.uniform(0.5, 2, (rows, 1))
    return SiteData(name, csr_array(rng.poisson(rates).astype(np.float32)), np.array(["b", "t"])[y])


def test_depths_are_found_to_a_part_of_an_octave() -> None:
    sites = [counts(name) for name in "nsw"]
    bounded, usual = (fit_plain((LogCounts(),), sites, private=private) for private in (True, False))
    assert bounded.fits[0].get("depth")[0] == pytest.approx(usual.fits[0].get("depth")[0], rel=0.1)
    assert LogCounts(target_sum=1e4).bounded() is None


def test_the_columns_that_vary_most_and_their_components_are_found() -> None:
    sites = [counts(name) for name in "nsw"]
    steps = (LogCounts(target_sum=60), SelectVariable(3, flavor="variance", clip=9.0), PCA(1, clip=9.0))
    bounded, usual = (fit_plain(steps, sites, private=private) for private in (True, False))
    assert bounded.fits[1].get("kept").tolist() == usual.fits[1].get("kept").tolist() == [0, 1, 2]
    left, right = (made.fits[2].get("components")[:, 0] for made in (bounded, usual))
    assert abs(left @ right) > 0.99


def test_cells_with_privacy_from_counts_to_classes() -> None:
    sites, test = [counts(name, 2500) for name in "nsw"], counts("t", 500)
    steps = LogCounts(), SelectVariable(4, flavor="variance", clip=9.0), PCA(2, clip=9.0)
    privacy = DP(epsilon=4, clip=3.0)
    centroids = Moments(rule="centroid", space="euclidean", classes=("b", "t"), min_sites=3, privacy=privacy)
    found = fedgeom.run(Pipeline(*steps, centroids), sites).model
    assert (found.predict(test.table) == test.y).mean() > 0.9

"""The sites that methods are tried on."""

from __future__ import annotations

import numpy as np

from fedgeom.testing.examples import example_sites, other_rows


def test_sites_lie_in_the_disc_and_have_both_classes() -> None:
    for site in example_sites(5, 30, seed=3):
        assert np.linalg.norm(site.X, axis=1).max() < 1
        assert site.classes.tolist() == ["left", "right"]
        assert len(site) == 30


def test_other_rows_differ_in_numbers_only() -> None:
    sites = example_sites()
    for site, other in zip(sites, other_rows(sites), strict=True):
        assert (site.name, site.columns) == (other.name, other.columns)
        assert (site.y == other.y).all()
        assert (site.X != other.X).any()
        assert (np.linalg.norm(other.X, axis=1) <= np.linalg.norm(site.X, axis=1) + 1e-12).all()

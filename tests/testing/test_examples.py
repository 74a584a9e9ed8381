"""The sites that methods are tried on."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.testing.rehearsal import example_sites, twins, with_extreme_row


def test_sites_lie_in_the_disc_and_have_both_classes() -> None:
    for site in example_sites(5, 30, seed=3):
        assert np.linalg.norm(site.X, axis=1).max() < 1
        assert site.classes.tolist() == ["left", "right"]
        assert len(site) == 30


def test_twins_differ_in_what_they_say_and_in_nothing_else() -> None:
    sites = example_sites()
    found = twins(sites)
    assert len(found) == 6
    for difference, others in found.items():
        for site, other in zip(sites, others, strict=True):
            assert (site.name, site.columns, site.X.shape[1]) == (other.name, other.columns, other.X.shape[1])
            assert site.classes.tolist() == other.classes.tolist()
            same_number = len(site) == len(other)
            assert same_number == (difference != "numbers of rows")
            if same_number:
                assert (site.X != other.X).any() == ("rows" in difference)
                assert (site.y != other.y).any() == (
                    difference in ("labels", "rows and labels", "sizes of classes")
                )
                assert (site.class_counts() != other.class_counts()) == (difference == "sizes of classes")


def test_other_rows_lie_no_farther_out_and_an_extreme_one_at_the_rim() -> None:
    sites = example_sites()
    found = twins(sites)
    for site, moved, extreme in zip(sites, found["rows"], found["extreme rows"], strict=True):
        lengths = [np.linalg.norm(one.X, axis=1) for one in (site, moved, extreme)]
        assert (lengths[1] <= lengths[0] + 1e-12).all()
        assert (lengths[2] != lengths[0]).sum() == 1
        assert lengths[2].max() == pytest.approx(0.999)
    far = with_extreme_row(SiteData("far", 10 * sites[0].X, sites[0].y))
    assert np.linalg.norm(far.X, axis=1).max() > 1000

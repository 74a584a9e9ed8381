"""The site of label propagation: what it is made of, what it refuses, and what it has in the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgeom import XCLP, SiteData
from fedgeom.errors import InputError
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.xclp.anchors import CountCells, SumAnchorCells, SumCodes, SumUnitRows
from fedgeom.methods.xclp.messages import CountClasses, CountLabels, Spread
from fedgeom.methods.xclp.site import ATTEMPTS, XclpSite
from fedgeom.protocols.names import CountNames
from fedgeom.protocols.preparation import SumFloors
from tests.methods.coordinators import fresh, hold
from tests.methods.laws import assert_model_files_are_the_sites_own
from tests.methods.xclp.making import cones

PAIRS = XCLP(hash_bits=128, hamming="ot", hidden_projection=False)
ANCHORS = XCLP(graph="anchors", n_anchors=8, n_rounds=3, min_cell=2)


def test_the_sums_of_a_run_follow_from_its_settings() -> None:
    assert tuple(XclpSite.all_sums(PAIRS)) == (CountNames, SumFloors, CountClasses, *[Spread] * ATTEMPTS)
    steps = (CountCells, SumAnchorCells) * 3
    assert tuple(XclpSite.all_sums(ANCHORS)) == (CountNames, SumFloors, SumUnitRows, *steps, SumCodes)
    for method in (PAIRS, ANCHORS):
        scaled = tuple(XclpSite.all_sums(replace(method, confidence="code")))
        assert scaled == (*XclpSite.all_sums(method), CountLabels)


def test_data_that_cannot_be_used_are_refused_naming_the_site() -> None:
    with pytest.raises(InputError, match="site 's' has no rows"):
        fresh(PAIRS, SiteData("s", np.zeros((0, 2)), [])).check(PAIRS)
    with pytest.raises(InputError, match="site 's': row 0, column 1 is nan"):
        fresh(PAIRS, SiteData("s", [[0.0, np.nan]], [1])).check(PAIRS)
    agreed = XCLP(classes=("a", "b"))
    with pytest.raises(InputError, match="site 's': labels outside the agreed classes: c"):
        fresh(agreed, SiteData("s", [[0.0], [1.0]], ["c", ""])).check(agreed)
    fresh(agreed, SiteData("s", [[0.0], [1.0]], ["a", ""])).check(
        agreed
    )  # rows without a label are what it is for


def test_unlabelled_rows_have_no_name() -> None:
    site = fresh(PAIRS, SiteData("s", np.zeros((4, 1)), np.array([2.0, np.nan, 1.0, -1.0])))
    assert site.label_counts() == site.names.own_counts() == {"1": 1, "2": 1}


@pytest.mark.full
@pytest.mark.parametrize(
    "method", [PAIRS, ANCHORS, replace(PAIRS, variant="paper"), replace(ANCHORS, variant="code")]
)
def test_each_site_keeps_what_labels_its_later_rows(method: XCLP) -> None:
    sites = cones(3, rows=14, labelled=0.6)
    assert_model_files_are_the_sites_own(method, sites, seed=1)
    site = fresh(method, sites[0])
    assert (site.result(), site.model_file()) == ({}, b"")


def test_over_pairs_the_site_has_its_rows_and_through_anchors_the_joint_model() -> None:
    sites = cones(3, rows=14, labelled=0.6)
    over, through = hold(PAIRS, sites), hold(ANCHORS, sites)
    for site in sites:
        own = over.local()[site.name]
        assert set(own) == {"labels", "confidences", "scores", "rows", "label_type"}
        assert own["label_type"] == "integer"
        np.testing.assert_array_equal(own["rows"], site.X)
        np.testing.assert_array_equal(read_model(over.site(site.name).model_file()).rows, site.X)
        assert set(through.local()[site.name]) == {"labels", "confidences", "scores", "label_type"}
        assert through.site(site.name).model_file() == through.model.to_bytes()

"""Sites prepared where one process sees them all."""

from __future__ import annotations

import numpy as np

import fedgeom
from fedgeom.preparation import prepared_method
from tests.preparation.raw import clinical


def test_the_method_is_left_without_steps_and_the_sites_without_gaps():
    made = prepared_method(fedgeom.Ridge(features="linear", prepare="table", alpha=3.0), clinical())
    assert made.method == fedgeom.Ridge(features="linear", alpha=3.0)
    assert all(np.isfinite(site.X).all() and not site.categories for site in made.sites)
    assert made.preparation.columns.names == made.sites[0].columns

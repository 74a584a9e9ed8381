"""The plain run of preparation."""

from __future__ import annotations

import fedgeom
from fedgeom.federation.preparation import fit_plain
from fedgeom.preparation import Impute, OneHot, Scale
from tests.preparation.raw import clinical


def test_a_run_comes_to_the_very_same():
    sites = clinical()
    steps = (OneHot(), Impute(), Scale())
    found = fedgeom.run(fedgeom.Ridge(features="linear", prepare=steps), sites).model.preparation
    assert found.stored()[1] == fit_plain(steps, sites).stored()[1]
    for one, other in zip(found.fits, fit_plain(steps, sites).fits, strict=True):
        assert {k: v.numpy().tolist() for k, v in one.arrays.items()} == {
            k: v.numpy().tolist() for k, v in other.arrays.items()
        }

"""The signs of changed rows."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.methods.ridge.update import CHANGE, signs_of


def test_signs_are_read_and_anything_else_is_refused() -> None:
    X, y = np.zeros((3, 2)), np.array(["a", "b", "a"])
    assert signs_of(SiteData("s", X, y, {CHANGE: [1, -1, 1]})).tolist() == [1, -1, 1]
    for wrong in ({}, {CHANGE: [1, 0, 1]}, {CHANGE: [2, 1, 1]}):
        with pytest.raises(InputError, match="'s'"):
            signs_of(SiteData("s", X, y, wrong))

"""Rows that others would learn, for previews."""

from __future__ import annotations

import numpy as np

from fedgeom.federation.method import ShownRows


def test_the_share_is_that_of_the_rows_of_the_class() -> None:
    shown = ShownRows("flu", 8, 2, np.zeros((8, 2)), np.zeros((2, 2)))
    assert shown.share == 0.25
    assert "points" not in repr(shown)

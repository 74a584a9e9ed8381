"""Lumps: as many as there are, none too small."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.geometry.gaussians import find_components


def rows(*centres: float, each: int = 60) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.vstack([rng.normal((centre, 0.0), size=(each, 2)) for centre in centres])


@pytest.mark.parametrize("centres", [(0.0,), (0.0, 9.0), (0.0, 9.0, 18.0)])
def test_lumps_are_counted(centres: tuple[float, ...]) -> None:
    found = find_components(rows(*centres), 4, 5)
    assert len(np.unique(found)) == len(centres)
    assert sorted(np.bincount(found).tolist()) == [60] * len(centres)


def test_the_cap_holds_and_small_lumps_do_not_count() -> None:
    assert len(np.unique(find_components(rows(0.0, 9.0, 18.0), 2, 5))) == 2
    assert not find_components(rows(0.0, 9.0), 1, 5).any()
    assert not find_components(rows(0.0, 9.0, each=4), 4, 5).any()  # 8 rows make no two lumps of 5

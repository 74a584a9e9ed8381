"""The picture of a run."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.report.disc import draw_disc


@pytest.mark.parametrize("kind", ["case", "disc_case"])
def test_picture(kind, request, tmp_path):
    run, data, truth = request.getfixturevalue(kind)
    path = draw_disc(
        run, data.train, tmp_path / "new" / "a.png", test_sites=data.test, truth=truth or None, dpi=60
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    again = draw_disc(run, data.train, tmp_path / "b.png", test_sites=data.test, truth=truth or None, dpi=60)
    assert path.read_bytes() == again.read_bytes()


def test_picture_without_tests_and_with_many_sites(disc_case, tmp_path):
    X, y = (np.concatenate([getattr(site, part) for site in disc_case.data.train]) for part in "Xy")
    sites = fedgeom.split(X, y, n_sites=13)
    run = fedgeom.run(fedgeom.Hulls(), sites, seed=0)
    assert draw_disc(run, sites, tmp_path / "a.svg").stat().st_size > 0

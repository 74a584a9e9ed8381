"""The picture of Gaussians: ellipses where they should be, the same file each time."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.report.ellipses import draw_ellipses, outline, plane
from fedgeom.testing import example_sites
from tests.methods.ellipses.making import at_depth


def test_an_ellipse_is_two_deviations_wide() -> None:
    line = outline(np.array([1.0, 2.0]), np.diag([4.0, 1.0]), np.eye(2))
    assert np.allclose(line.max(axis=0), [5.0, 4.0])
    assert np.allclose(line[0], line[-1])


def test_the_plane_is_where_classes_differ() -> None:
    means = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    found = plane(means, np.repeat(np.eye(3)[None], 3, axis=0))
    assert np.allclose(np.abs(found), [[1, 0], [0, 0], [0, 1]], atol=0.4)
    assert np.array_equal(plane(means[:, :2], np.repeat(np.eye(2)[None], 3, axis=0)), np.eye(2))


def test_picture(tmp_path) -> None:
    sites = at_depth()
    run = fedgeom.run(fedgeom.Ellipses(n_classes=4, depth="mixed"), sites, seed=0)
    path = draw_ellipses(run, sites, tmp_path / "new" / "a.png", dpi=50)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.read_bytes() == draw_ellipses(run, sites, tmp_path / "b.png", dpi=50).read_bytes()


def test_other_runs_have_none(tmp_path) -> None:
    run = fedgeom.run(fedgeom.Moments(), example_sites())
    with pytest.raises(InputError, match="for the method 'ellipses'"):
        draw_ellipses(run, [], tmp_path / "a.png")

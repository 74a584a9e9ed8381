from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import pairwise_distance
from fedgeom.report.disc import draw_disc
from fedgeom.report.palette import colours
from fedgeom.report.shapes import needs_disc, outline, regions, site_shapes


def test_hulls_are_given_back_to_their_sites(case):
    """A site's decoded hulls lie within ε of the corners that it computed."""
    shapes = site_shapes(case.run, case.data.train)
    assert [one.name for one in shapes] == [site.name for site in case.data.train]
    for one in shapes:
        assert one.sent.keys() == one.exact.keys()
        for group, hulls in one.sent.items():
            far = pairwise_distance(np.vstack(hulls), np.vstack(one.exact[group])).min(axis=1).max()
            assert far <= 0.01


def test_outlines_are_closed_geodesics():
    corners = np.array([[0.0, 0.0], [0.6, 0.0], [0.0, 0.6], [0.1, 0.1]])
    line = outline(corners, c=1.0)
    assert np.allclose(line[0], line[-1])
    assert np.linalg.norm(line, axis=1).max() <= 0.6 + 1e-9
    assert len(outline(corners[:1], c=1.0)) == 1
    assert len(outline(corners[:2], c=1.0)) > 2


def test_regions_agree_with_the_model(disc_case):
    area = regions(disc_case.run.model, n=80)
    x, y = 40, 22
    place = np.array([[area.axis[x], area.axis[y]]])
    assert area.best[y, x] == disc_case.run.model.predict(place)[0]
    assert (area.best[0, 0], area.centre(5)) == (-1, None)
    centre = area.centre(0)
    assert disc_case.run.model.predict(centre[None])[0] == 0


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
    import fedgeom

    X, y = (np.concatenate([getattr(site, part) for site in disc_case.data.train]) for part in "Xy")
    sites = fedgeom.split(X, y, n_sites=13)
    run = fedgeom.run(fedgeom.Hulls(), sites, seed=0)
    assert draw_disc(run, sites, tmp_path / "a.svg").stat().st_size > 0


def test_other_models_are_refused():
    with pytest.raises(InputError, match="no hulls in a disc"):
        needs_disc(SimpleNamespace(model=object(), artifacts={}))


def test_colours_differ():
    for n in (1, 2, 6, 7, 10, 19, 30):
        assert len(set(colours(n))) == n

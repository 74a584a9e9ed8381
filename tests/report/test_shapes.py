"""The shapes of a run as coordinates: hulls, outlines, regions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import fedgeom
from fedgeom.data.datasets import load_set
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import pairwise_distance
from fedgeom.report.disc import in_disc, needs_disc, outline, regions, site_shapes


def test_hulls_are_given_back_to_their_sites(case):
    """A site's decoded hulls lie within ε of the corners that it computed."""
    shapes = site_shapes(case.run, case.data.train)
    assert [one.name for one in shapes] == [site.name for site in case.data.train]
    for one in shapes:
        assert one.sent.keys() == one.exact.keys()
        for group, hulls in one.sent.items():
            far = pairwise_distance(np.vstack(hulls), np.vstack(one.exact[group])).min(axis=1).max()
            assert far <= 0.01


def test_with_shared_names_a_sites_corners_are_the_nearest_of_its_class():
    data = load_set("synthetic", points=300)
    run = fedgeom.run(fedgeom.Hulls(names="shared"), data.train)
    for one in site_shapes(run, data.train):
        assert one.sent.keys() == one.exact.keys() == {0, 1}
        for group, hulls in one.sent.items():
            assert pairwise_distance(np.vstack(hulls), np.vstack(one.exact[group])).min(axis=1).max() <= 0.05


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


def test_rows_become_points_with_the_classes_that_the_site_learnt(case):
    site, test = case.data.train[1], case.data.test[1]
    points, groups = in_disc(case.run, site, test.relabel({"B": "B", "M": "never seen"}))
    names = case.run.local["South"]["names"]
    assert points.shape == (len(test), 2)
    assert (np.linalg.norm(points, axis=1) < 1).all()
    assert groups.tolist() == [names["B"] if label == "B" else -1 for label in test.y]


def test_other_models_are_refused():
    for model in (SimpleNamespace(in_disc=False), SimpleNamespace(in_disc=True)):
        with pytest.raises(InputError, match="no hulls in a disc"):
            needs_disc(SimpleNamespace(model=model, artifacts={}))

"""Rows as points of the disc."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError
from fedgeom.methods.hulls.embedding import embed, projection, site_scatter
from fedgeom.preparation import Scale, ToDisc, fit_plain
from tests.preparation.raw import pooled


def tables(sites=4, rows=40):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 5)) * 3
    return [
        SiteData(
            f"s{i}",
            centres[np.arange(rows) % 3] + rng.normal(size=(rows, 5)),
            np.array(["a", "b", "c"])[np.arange(rows) % 3],
        )
        for i in range(sites)
    ]


def test_it_is_the_map_of_the_hulls_on_one_scale():
    sites = tables()
    made = fit_plain([ToDisc()], sites)
    X = pooled(sites)
    scales = np.vstack([X.mean(axis=0), X.std(axis=0)])
    total = np.sum([site_scatter(site.X, site.y, scales) for site in sites], axis=0)
    wanted = embed(X, projection(total, 5), scales, c=1.0)
    np.testing.assert_allclose(pooled([made.transform(site) for site in sites]), wanted, atol=1e-6)
    assert (np.linalg.norm(wanted, axis=1) < 1).all()


def test_hulls_and_moments_take_its_points_and_their_model_raw_rows():
    sites = [site.relabel({w: f"{w} of {site.name}" for w in "abc"}) for site in tables()]
    run = fedgeom.run(fedgeom.Hulls(n_classes=3, prepare=[Scale(), ToDisc()]), sites)
    model = run.model.for_site(run.local["s0"])
    assert (model.predict(sites[0].X) == sites[0].y).mean() > 0.8


def test_one_column_is_no_disc():
    sites = [SiteData(s.name, s.X[:, :1], s.y) for s in tables()]
    with pytest.raises(FedgeomError, match="2 to 2,000 columns"):
        fit_plain([ToDisc()], sites)

"""What Ridge computes does not depend on how rows are spread over the sites."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.methods.ridge.features import Binned, Fourier
from tests.methods.ridge.making import SHAPE, SMALL_CONV, blobs, images, pooled


@pytest.mark.parametrize("features", ["linear", Fourier(n_components=15), Binned(n_bins=3)])
def test_every_partition_gives_the_same_model(features: object) -> None:
    sites = blobs()
    X, y = pooled(sites)
    alone = [
        fedgeom.SiteData(str(label), X[y == label], y[y == label]) for label in np.unique(y)
    ]  # a class per site
    method = fedgeom.Ridge(features=features)  # type: ignore[arg-type]
    one, other = method.plain(sites).model, method.plain(alone).model
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-6, atol=1e-8)
    assert one.predict(X).tolist() == other.predict(X).tolist()
    assert (one.predict(X) == y).mean() > 0.8


def test_every_partition_of_images_gives_the_same_filters() -> None:
    sites = images()
    X, y = pooled(sites)
    method = fedgeom.Ridge(features=SMALL_CONV, shape=SHAPE, alpha=1.0)
    one, other = (method.plain(where).model for where in (sites, [fedgeom.SiteData("all", X, y)]))
    np.testing.assert_allclose(one.filters, other.filters, atol=1e-4)
    assert (one.predict(X) == other.predict(X)).all()
    assert (one.predict(X) == y).all()

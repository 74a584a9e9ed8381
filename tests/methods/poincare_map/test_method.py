"""A joint Poincaré map: the twin's, at any partition; on few rows nothing rests; roots, files, other methods on it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.policy import StrictPolicy
from fedgeom.geometry.hyperbolic import procrustes
from fedgeom.geometry.hyperbolic.poincare import log0, pairwise_distance
from fedgeom.preparation import PCA, LandmarkMap, Scale, fit_plain
from tests.methods.poincare_map import twin
from tests.preparation.raw import pooled

MAP = fedgeom.PoincareMap(n_landmarks=24)


def arms(rows=60, sites=4, seed=0):
    """Return sites with rows along three arms that leave one place, the stem, in five columns."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(sites):
        arm = np.arange(rows) % 3
        along = rng.uniform(0, 6, rows)
        X = along[:, None] * np.eye(3, 5)[arm] + 0.15 * rng.normal(size=(rows, 5))
        y = np.where(along < 1.5, "stem", np.array(["a", "b", "c"])[arm])
        found.append(SiteData(f"s{at}", X, y))
    return found


def test_the_map_is_the_twins():
    sites = arms()
    X = pooled(sites)
    made = fit_plain([LandmarkMap(n_landmarks=24)], sites)
    cells = twin.cells(X, 24, 5)
    landmarks = np.array([X[cells == cell].mean(axis=0) for cell in range(cells.max() + 1)])
    fit = made.fits[0]
    np.testing.assert_allclose(fit.get("landmarks"), landmarks, atol=1e-8)
    assert fit.get("sizes").tolist() == np.bincount(cells).tolist()
    wanted = twin.embedded(landmarks)
    same = procrustes(wanted, fit.get("points"))
    np.testing.assert_allclose(same(wanted), fit.get("points"), atol=1e-6)
    away = log0(fit.get("points"))
    np.testing.assert_allclose(np.bincount(cells) @ away / len(X), 0, atol=1e-9)  # the middle is at the origin
    placed = twin.placed(X, landmarks, fit.get("points"))
    np.testing.assert_allclose(pooled([made.transform(site) for site in sites]), placed, atol=1e-9)


def test_any_partition_of_the_rows_gives_the_same_map():
    X, y = pooled(arms()), np.concatenate([site.y for site in arms()])
    order = np.random.default_rng(1).permutation(len(X))
    other = [SiteData(f"t{at}", X[some], y[some]) for at, some in enumerate(np.array_split(order, 7))]
    one, two = (fedgeom.run(MAP, sites).model for sites in (arms(), other))
    np.testing.assert_allclose(one.landmarks, two.landmarks, atol=1e-7)
    assert one.counts.tolist() == two.counts.tolist()


def test_rows_of_a_run_are_where_the_twin_puts_them_and_the_root_is_at_the_origin(tmp_path):
    sites = arms()
    run = fedgeom.run(fedgeom.PoincareMap(n_landmarks=24, root="stem"), sites)
    model = run.model
    points = model.transform(sites[0].X)
    assert points.shape == (60, 2)
    assert (np.linalg.norm(points, axis=1) < 1).all()
    plain = fedgeom.run(MAP, sites).model
    flat = pairwise_distance(plain.transform(sites[0].X), plain.transform(sites[0].X))
    np.testing.assert_allclose(pairwise_distance(points, points), flat, atol=1e-6)  # an isometry
    along = sites[0].X.max(axis=1)
    assert spearmanr(model.pseudotime(sites[0].X), along).statistic > 0.7
    assert model.score(sites[0].X, sites[0].y) > 0.85
    model.save(tmp_path / "map.safetensors")
    again = fedgeom.load_model(tmp_path / "map.safetensors")
    np.testing.assert_array_equal(again.transform(sites[0].X), points)


def test_cells_of_strict_sites_have_rows_and_sites_enough_for_their_columns():
    sites = arms(rows=150)
    made = fit_plain([LandmarkMap()], sites, floors=(3, 10))
    fit = made.fits[0]
    assert fit.get("sizes").min() >= 10 + 5
    assert len(fit.get("sizes")) < len(fit_plain([LandmarkMap()], sites).fits[0].get("sizes"))
    far = [SiteData(site.name, site.X + 100 * at, site.y) for at, site in enumerate(sites)]
    with pytest.raises(FedgeomError, match="all rows are in one cell"):
        fit_plain([LandmarkMap()], far, floors=(3, 10))


def test_small_tables_of_strict_sites_get_a_map():
    rng = np.random.default_rng(0)
    sites = [SiteData(f"s{at}", rng.normal(size=(75, 30)), np.repeat(["a", "b", "c"], 25)) for at in range(4)]
    run = fedgeom.run(fedgeom.PoincareMap(prepare="table"), sites, policy=StrictPolicy())
    assert len(run.model.landmarks) >= 8
    assert run.model.sizes.min() >= 15
    assert run.model.sizes.sum() == 300


def test_strict_sites_make_a_map_and_hide_small_counts():
    model = fedgeom.run(MAP, arms(rows=150), policy=StrictPolicy()).model
    assert model.counts[model.counts > 0].min() >= 10


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.Hulls(names="shared", embedding="map", epsilon=0.05),
        fedgeom.Moments(prepare=[Scale(), PCA(4), fedgeom.PoincareMap(n_landmarks=24, n_components=3)]),
        fedgeom.Pipeline(fedgeom.PoincareMap(n_landmarks=24), fedgeom.Ellipses(names="shared")),
    ],
    ids=lambda method: method.name,
)
def test_other_methods_take_points_of_the_map(method):
    sites = arms()
    assert fedgeom.run(method, sites).model.score(pooled(sites), np.concatenate([s.y for s in sites])) > 0.6


def test_what_cannot_be_is_refused_in_words():
    with pytest.raises(InputError, match="wanted one of the sites' classes: a, b, c, stem"):
        fedgeom.run(fedgeom.PoincareMap(root="d"), arms())
    with pytest.raises(InputError, match="from exact means"):
        LandmarkMap().bounded()
    alike = [SiteData(site.name, np.ones_like(site.X), site.y) for site in arms()]
    with pytest.raises(FedgeomError, match="all rows are in one cell"):
        fit_plain([LandmarkMap()], alike)

"""Rows that are kept to be drawn."""

from __future__ import annotations

import shutil
import stat

import numpy as np

import fedgeom
from fedgeom.report.run_folder import MOST_OF_SITE, ROWS, DrawnRows, keep_rows, read_rows


def test_rows_of_hulls_are_few_private_and_say_whose_the_hulls_are(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    file = keep_rows(case.run, folder)
    assert file == folder / ROWS
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    rows = read_rows(folder)
    assert set(rows.sites) == {site.name for site in case.data.train}
    assert sorted(rows.owners.values()) == sorted(set(case.run.artifacts["owner_of_hull"].tolist()))
    for dots in rows.sites.values():
        assert 0 < len(dots.points) == len(dots.groups) <= MOST_OF_SITE
        assert np.linalg.norm(dots.points, axis=1).max() < 1


def test_rows_of_ellipses_lie_in_the_plane_and_senders_get_their_names(tmp_path):
    rng = np.random.default_rng(0)
    sites = []
    for at in range(3):
        y = np.repeat(["a", "b"], 40)
        X = rng.normal(size=(80, 3)) + 6.0 * (y == "b")[:, None] + 0.3 * at
        sites.append(fedgeom.SiteData(f"s{at}", X, y))
    run = fedgeom.run(fedgeom.Ellipses(scale="none"), sites, seed=0)
    keep_rows(run, tmp_path)
    rows = read_rows(tmp_path)
    assert set(rows.sites) == {"s0", "s1", "s2"}
    assert sorted(rows.owners.values()) == [0, 1, 2]
    means, owners = run.artifacts["ellipse_means"], run.artifacts["owner_of_ellipse"]
    for at, site in enumerate(sites):
        own = np.sort(means[owners == rows.owners[site.name]].mean(axis=1))
        true = np.sort([site.X[site.y == word].mean() for word in "ab"])
        assert np.abs(own - true).max() < 0.05, at


def test_methods_without_shapes_keep_no_rows(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    run = fedgeom.run(fedgeom.Moments(space="euclidean"), fedgeom.split(X, X[:, 0] > 0, n_sites=3))
    assert keep_rows(run, tmp_path) is None
    assert read_rows(tmp_path) == DrawnRows()

"""What pictures show."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import fedgeom
from fedgeom.preparation import PCA
from fedgeom.report import explorer
from fedgeom.report.explorer import SIZE, scene_of
from fedgeom.report.run_folder import keep_rows, read_run
from tests.report.folders import folder_of


def numbers(path):
    return np.array(path.replace("M", " ").replace("L", " ").replace("z", " ").split(), float).reshape(-1, 2)


def test_hulls_are_drawn_inside_the_disc_by_sender_and_class(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    explorer = scene_of(read_run(folder))
    assert explorer.disc
    assert len(explorer.shapes) == len(case.run.artifacts["group_of_hull"])
    assert explorer.sites == ["sender 1", "sender 2", "sender 3", "sender 4"]
    assert not explorer.dots
    for shape in explorer.shapes:
        away = np.linalg.norm(numbers(shape.path) - SIZE / 2, axis=1)
        assert away.max() <= SIZE / 2 + 1
    assert {group for group, _ in explorer.regions} == {0, 1}


def test_with_rows_at_hand_senders_have_names_and_without_them_not(case, tmp_path):
    folder = shutil.copytree(case.run.folder, tmp_path / "run")
    keep_rows(case.run, folder)
    explorer = scene_of(read_run(folder))
    assert set(explorer.sites) == {site.name for site in case.data.train}
    assert {one.site for one in explorer.dots} == set(explorer.sites)
    handed_on = scene_of(read_run(folder, rows=False))
    assert not handed_on.dots
    assert handed_on.sites[0] == "sender 1"


def test_where_a_number_stands_the_model_decides_for_its_class(case, tmp_path):
    run = read_run(shutil.copytree(case.run.folder, tmp_path / "run"))
    flat = replace(run.model, embedding=None, scales=None, names=())
    for group, x, y in scene_of(run).labels:
        point = np.array([[2 * x / SIZE - 1, 1 - 2 * y / SIZE]])
        assert flat.predict_proba(point).argmax() == group


@pytest.mark.parametrize("columns", [2, 4])
def test_gaussians_are_drawn_in_a_plane(tmp_path, columns):
    rng = np.random.default_rng(1)
    y = np.repeat(["a", "b", "c"], 50)
    X = rng.normal(size=(150, columns))
    X[:, 0] += 8 * (y == "b")
    X[:, 1] += 8 * (y == "c")
    sites = fedgeom.split(X, y, n_sites=3)
    fedgeom.run(fedgeom.Moments(space="euclidean"), sites, record=tmp_path / "run")
    explorer = scene_of(read_run(tmp_path / "run"))
    assert not explorer.disc
    assert list(explorer.classes.values()) == ["a", "b", "c"]
    assert len(explorer.regions) == 3
    for shape in explorer.shapes:
        assert shape.site == ""
        assert numbers(shape.path)[:, 1].max() <= explorer.tall


def test_a_run_without_a_model_has_no_picture(tmp_path):
    assert scene_of(read_run(folder_of(tmp_path / "run"))) is None


def test_numbers_of_classes_do_not_cover_each_other():
    spots = np.array([[100.0, 100.0], [100.0, 100.0], [105.0, 100.0], [600.0, 300.0]])
    moved = explorer._apart(spots)
    gaps = [np.hypot(*(moved[i] - moved[j])) for i in range(4) for j in range(i)]
    assert min(gaps) > 0.95 * explorer.ASIDE
    assert np.allclose(moved[3], spots[3])  # what is alone stays


def test_a_joint_map_is_drawn_with_its_landmarks_and_rows_and_can_be_moved(tmp_path):
    sites = fedgeom.load_set("synthetic", points=300, n_sites=3).train
    run = fedgeom.run(fedgeom.PoincareMap(n_landmarks=16), sites, record=tmp_path / "run")
    keep_rows(run, tmp_path / "run")
    scene = scene_of(read_run(tmp_path / "run"))
    assert scene is not None
    assert len(scene.shapes) == len(run.model.landmarks)
    assert [one.rows for one in scene.shapes] == run.model.sizes.tolist()
    placed = np.array([[float(x) for x in one.spots.split(",")] for one in scene.shapes])
    np.testing.assert_allclose(placed, run.model.landmarks, atol=1e-6)
    assert {one.site for one in scene.dots} == {site.name for site in sites}
    assert not scene.columns  # they have no names
    page = explorer.explorer(scene)
    assert " data-moves" in page
    assert page.count("data-rows=") == len(scene.shapes)
    assert "data-colour" in page


def test_landmarks_are_coloured_by_means_of_columns_that_components_are_made_of(tmp_path):
    rng = np.random.default_rng(0)
    names = tuple(f"gene <{at}>" for at in range(6))
    sites = []
    for at in range(3):
        y = np.arange(80) % 2
        X = rng.normal(size=(80, 6)) + np.outer(y, [5, -3, 2, 0, 0, 0])
        sites.append(fedgeom.SiteData(f"s{at}", X, y, columns=names))
    fedgeom.run(
        fedgeom.PoincareMap(n_landmarks=8, n_columns=None, prepare=[PCA(6)]), sites, record=tmp_path / "run"
    )
    run = read_run(tmp_path / "run")
    scene = scene_of(run)
    assert set(scene.columns) == set(names)
    pca, fit = run.model.preparation.fits
    means = np.column_stack([scene.columns[name] for name in names])
    np.testing.assert_allclose(means @ pca.get("components"), fit.get("landmarks"), atol=1e-9)
    page = explorer.explorer(scene)
    shares = re.search(r'data-shares="([^"]*)" data-range="[^"]*">gene &lt;0&gt;<', page).group(1).split()
    assert np.argsort(np.array(shares, float)).tolist()[-1] == int(means[:, 0].argmax())
    assert len(shares) == len(run.model.landmarks)

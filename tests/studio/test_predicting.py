"""Predictions on the page: what a file of them says, and the copy of the table with them."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.studio.predicting import as_h5ad, has_model, predict, read_prediction


@pytest.fixture
def cells(place):
    """A finished run of a joint map in the folder, and a file of cells."""
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    rng = np.random.default_rng(0)
    y = np.tile(["a", "b"], 60)
    X = rng.normal(size=(120, 3)) + 3 * (y == "b")[:, None]
    table = pandas.DataFrame(X, columns=["f", "g", "h"])
    sites = fedgeom.split(table, y, 3)
    fedgeom.run(fedgeom.PoincareMap(n_landmarks=16), sites, record=place.make(place.runs) / "map")
    found = anndata.AnnData(X, obs=pandas.DataFrame(index=[f"cell {at}" for at in range(120)]))
    found.var_names = ["f", "g", "h"]
    found.write_h5ad(place.make(place.files) / "new.h5ad")
    return anndata


def test_new_cells_are_on_the_map_and_in_a_copy_of_their_file(place, cells):
    assert has_model(place.runs / "map")
    name = predict(place, "map", "new.h5ad")
    found = read_prediction(place, name)
    assert place.prediction_names() == [name]
    assert found.count == sum(count for _, count in found.classes) == 120
    assert sum(one.path.count("M") for one in found.scene.dots) == 120
    copy = cells.read_h5ad(as_h5ad(place, name))
    assert copy.obsm["X_poincare"].shape == (120, 2)
    assert np.mean(copy.obs["fedgeom_class"] == ["a", "b"] * 60) > 0.95
    run = fedgeom.load_model(place.runs / "map")
    np.testing.assert_allclose(copy.obsm["X_poincare"], run.transform(copy.X), atol=1e-6)
    (place.runs / "map").rename(place.runs / "gone")  # the file stays, without its map
    assert read_prediction(place, name).scene is None


def test_a_prediction_of_a_text_table_has_no_copy(place):
    place.make(place.predictions)
    (place.predictions / "old.csv").write_text("row,class\n1,a\n")
    assert read_prediction(place, "old.csv").classes == [("a", 1)]
    with pytest.raises(InputError, match=r"not made of an \.h5ad file"):
        as_h5ad(place, "old.csv")

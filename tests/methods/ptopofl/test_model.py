"""The model of pTopoFL: the four added columns by hand, and files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom import PTopoFL
from fedgeom.errors import InputError
from fedgeom.geometry.topology.descriptors import describe
from fedgeom.geometry.topology.persistence import rips_diagrams
from fedgeom.methods.ptopofl.model import ADDED, CloudShape, TopoModel
from tests.methods.ptopofl.making import hospitals

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


def test_the_added_columns_by_hand() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    shape = CloudShape.of(square, 80, np.random.default_rng(0))
    assert shape.centre.tolist() == [0.5, 0.5]
    # Three merges at length 1 have equal shares, one loop has none: entropies log 3 and 0, nothing above the median.
    assert shape.constants == pytest.approx([math.log(3), 0.0, 0.0])
    assert shape.add_to(square)[:, 2] == pytest.approx([0.5] * 4)


@pytest.mark.parametrize("seed", range(3))
def test_the_added_columns_do_not_depend_on_where_the_cloud_lies_or_on_the_order_of_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cloud, away = rng.normal(size=(40, 3)), np.array([5.0, -3.0, 2.0])
    one = CloudShape.of(cloud, 80, np.random.default_rng(0))
    moved = CloudShape.of(cloud[rng.permutation(40)] + away, 80, np.random.default_rng(0))
    np.testing.assert_allclose(moved.constants, one.constants, atol=1e-9)
    np.testing.assert_allclose(moved.add_to(cloud + away)[:, -ADDED:], one.add_to(cloud)[:, -ADDED:], atol=1e-9)


def test_a_cloud_of_one_row_has_a_shape() -> None:
    shape = CloudShape.of(np.ones((1, 2)), 80, np.random.default_rng(0))
    assert shape.add_to(np.ones((1, 2))).tolist() == [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]


def test_models_are_saved_and_read(tmp_path: Path) -> None:
    sites = hospitals()
    for method in (PTopoFL(n_rounds=1), PTopoFL.published(n_rounds=1)):
        run = fedgeom.run(method, sites)
        own = run.model.for_site(run.local["h1"])
        own.save(tmp_path / "own.safetensors")
        again = fedgeom.load_model(tmp_path / "own.safetensors")
        assert np.array_equal(again.predict_proba(sites[1].X), own.predict_proba(sites[1].X))
    with pytest.raises(InputError, match=r"model\.for_site"):
        run.model.predict(sites[0].X)
    assert run.model.parameters.size == 4 + 4 + 1


def test_where_sites_add_columns_the_joint_model_needs_a_sites_shape() -> None:
    sites = hospitals(n=4)
    usual, run = (fedgeom.run(PTopoFL(n_rounds=1, augment=augment), sites) for augment in (False, True))
    added = run.model
    assert usual.model.everywhere
    assert not added.everywhere
    assert added.for_site(run.local[sites[0].name]).everywhere
    assert TopoModel.from_tensors(*added.tensors()).augmented


def test_the_48_numbers_of_the_site_stand_beside_each_row() -> None:
    """TopoNN, Appendix D: alone, or behind the four columns."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    numbers = CloudShape.of(X, 80, np.random.default_rng(1), ("descriptor",))
    wanted = describe(rips_diagrams(X), size_free=True)
    np.testing.assert_allclose(numbers.constants, wanted, atol=1e-12)
    added = numbers.add_to(X[:4])
    assert added.shape == (4, 3 + 48)
    np.testing.assert_array_equal(added[:, :3], X[:4])
    np.testing.assert_array_equal(added[:, 3:], np.tile(numbers.constants, (4, 1)))
    both = CloudShape.of(X, 80, np.random.default_rng(1), ("columns", "descriptor"))
    assert both.add_to(X).shape == (30, 3 + ADDED + 48)


@pytest.mark.parametrize("settings", [{"topo_inputs": True}, {"topo_inputs": True, "augment": True}], ids=str)
def test_a_model_with_the_48_numbers_predicts_at_its_site_and_from_its_file(settings, tmp_path: Path) -> None:
    sites = hospitals(rows=30)
    run = fedgeom.run(PTopoFL(n_rounds=2, epochs=1, n_points=20, **settings), sites, seed=1)
    with pytest.raises(InputError, match="site's own cloud"):
        run.model.predict(sites[0].X)
    own = run.model.for_site(run.local["h0"])
    own.save(tmp_path / "own.safetensors")
    read = fedgeom.load_model(tmp_path / "own.safetensors")
    np.testing.assert_array_equal(read.predict(sites[0].X), own.predict(sites[0].X))

"""The model of pTopoFL: the four added columns by hand, and files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom import PTopoFL
from fedgeom.errors import InputError
from fedgeom.methods.ptopofl.model import ADDED, Shape, TopoModel
from tests.methods.ptopofl.making import hospitals

pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")


def test_the_added_columns_by_hand() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    shape = Shape.of(square, 80, np.random.default_rng(0))
    assert shape.centre.tolist() == [0.5, 0.5]
    # Three merges at length 1 have equal shares, one loop has none: entropies log 3 and 0, nothing above the median.
    assert shape.constants == pytest.approx([math.log(3), 0.0, 0.0])
    assert shape.add_to(square)[:, 2] == pytest.approx([0.5] * 4)


@pytest.mark.parametrize("seed", range(3))
def test_the_added_columns_do_not_depend_on_where_the_cloud_lies_or_on_the_order_of_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cloud, away = rng.normal(size=(40, 3)), np.array([5.0, -3.0, 2.0])
    one = Shape.of(cloud, 80, np.random.default_rng(0))
    moved = Shape.of(cloud[rng.permutation(40)] + away, 80, np.random.default_rng(0))
    np.testing.assert_allclose(moved.constants, one.constants, atol=1e-9)
    np.testing.assert_allclose(moved.add_to(cloud + away)[:, -ADDED:], one.add_to(cloud)[:, -ADDED:], atol=1e-9)


def test_a_cloud_of_one_row_has_a_shape() -> None:
    shape = Shape.of(np.ones((1, 2)), 80, np.random.default_rng(0))
    assert shape.add_to(np.ones((1, 2))).tolist() == [[1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]


def test_models_are_saved_and_read(tmp_path: Path) -> None:
    sites = hospitals()
    for method in (PTopoFL(rounds=1), PTopoFL.published(rounds=1)):
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
    usual, run = (fedgeom.run(PTopoFL(rounds=1, augment=augment), sites) for augment in (False, True))
    added = run.model
    assert usual.model.everywhere
    assert not added.everywhere
    assert added.for_site(run.local[sites[0].name]).everywhere
    assert TopoModel.from_tensors(*added.tensors()).augmented

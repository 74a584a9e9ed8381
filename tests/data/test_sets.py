"""The built-in sets fall into sites as they say."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.datasets import SETS, available, data_folder, find_file, load_set
from fedgeom.errors import InputError
from tests.tiers import set_cases

SHAPES = {  # sites, classes, columns, all rows
    "hipc": (5, 10, 7, None),
    "heart": (4, 2, 13, 920),
    "olsson": (3, 8, 2, 319),
    "paul15": (3, 19, 2, 2730),
    "poincare-cifar10": (5, 10, 2, 60_000),
    "poincare-fashion": (5, 10, 2, 70_000),
    "breast-cancer": (4, 2, 30, 569),
    "digits": (4, 10, 52, 1797),
    "wine": (3, 3, 13, 178),
    "synthetic": (3, 2, 2, None),
}


@pytest.mark.parametrize("name", set_cases(SETS))
def test_shape(name):
    data = load_set(name)
    n_sites, n_classes, columns, rows = SHAPES[name]
    assert data.name == name
    assert len(data.train) == len(data.test) == n_sites
    assert len(data.classes) == n_classes
    assert {site.X.shape[1] for site in data.train + data.test} == {columns}
    assert rows in (None, sum(map(len, data.train + data.test)))
    assert [site.name for site in data.train] == [site.name for site in data.test]
    for site in data.train + data.test:
        assert np.isfinite(site.X).all()
        assert {str(label) for label in site.classes} <= set(data.classes)
        if data.in_disc:
            assert (np.linalg.norm(site.X, axis=1) < 1).all()
    for site in data.train:
        assert np.unique(site.y, return_counts=True)[1].min() >= 2


def test_seeds_and_options():
    a, b, c = (load_set("wine", seed=seed).train[0].X for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert len(load_set("wine", n_sites=5).train) == 5
    with pytest.raises(InputError, match="does not take these options"):
        load_set("wine", rows=3)
    with pytest.raises(InputError, match="there is no set 'iris'; there are: hipc"):
        load_set("iris")


def test_where_files_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDGEOM_DATA", raising=False)
    deep = tmp_path / "project" / "inside"
    deep.mkdir(parents=True)
    (tmp_path / "shared" / "data").mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert data_folder() == tmp_path / "shared" / "data"
    assert find_file("olsson") is None
    monkeypatch.setenv("FEDGEOM_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert available() == ["breast-cancer", "digits", "wine", "synthetic"]
    with pytest.raises(InputError, match=r"needs olsson\.npz: it was looked for in .*set FEDGEOM_DATA"):
        load_set("olsson")

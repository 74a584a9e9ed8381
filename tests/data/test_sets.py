"""The built-in sets fall into sites as they say."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fedgeom.data.datasets import SETS, available, data_folder, find_file, load_set
from fedgeom.errors import InputError
from fedgeom.partition import Pathological
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
    "mnist": (10, 10, 784, 70_000),
    "fashion-mnist": (10, 10, 784, 70_000),
    "cifar10": (10, 10, 3072, 60_000),
}


@pytest.mark.parametrize("name", set_cases(SHAPES))
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


def test_every_set_but_those_that_only_downloads_have_is_tried():
    assert set(SETS) - set(SHAPES) == {"cifar100"}


def test_images_of_a_folder_stay_bytes_and_are_dealt_by_a_partition(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGEOM_DATA", str(tmp_path))
    rng = np.random.default_rng(0)
    train, test = (rng.integers(0, 256, (n, 28, 28), np.uint8) for n in (300, 60))
    labels = np.repeat(np.arange(10, dtype=np.uint8), 30)
    parts = {"X_train": train, "y_train": labels, "X_test": test, "y_test": labels[::5]}
    np.savez(tmp_path / "fashion_mnist.npz", **parts)
    np.savez(tmp_path / "mnist_writers.npz", **parts, writer_train=np.tile([3, 1, 2, 2], 75))
    found = load_set("fashion-mnist", n_sites=5, how=Pathological(2))
    assert found.shape == (1, 28, 28)
    assert {site.table.dtype for site in found.train} == {np.dtype(np.uint8)}
    assert [len(site.classes) for site in found.train] == [2] * 5
    assert sum(map(len, found.train)) == 300
    coat = next(site for site in found.train if "coat" in site.classes)
    images = {image.tobytes() for image in train[labels == 4]}
    assert all(row.tobytes() in images for row in coat.table[coat.y == "coat"])
    writers = load_set("mnist", n_sites=2, how="natural")
    assert [(site.name, len(site)) for site in writers.train] == [("writer-1", 75), ("writer-2", 150)]
    assert sorted(load_set("mnist", n_sites=2).train[0].classes) == list(range(10))
    with pytest.raises(InputError, match="has 3 natural sites"):
        load_set("mnist", n_sites=4, how="natural")
    with pytest.raises(InputError, match="nobody knows whose images those of 'fashion-mnist' are"):
        load_set("fashion-mnist", how="natural")


def test_without_files_and_downloaders_it_is_said_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDGEOM_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        InputError, match=r"could not be had: torchvision is not installed; datasets is not .*put cifar10_"
    ):
        load_set("cifar10")
    with pytest.raises(InputError, match=r"install torchvision or datasets"):
        load_set("cifar100")


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

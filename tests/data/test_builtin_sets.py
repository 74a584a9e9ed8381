"""How built-in sets become sites."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.datasets import heart, load_set, sample
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError


def test_train_and_test_do_not_meet():
    data = load_set("breast-cancer")
    train, test = ({tuple(row) for site in part for row in site.X.tolist()} for part in (data.train, data.test))
    assert not train & test


def test_sample_keeps_rare_classes():
    site = SiteData("s", np.zeros((1030, 1)), ["a"] * 1000 + ["b"] * 30)
    assert np.unique(sample(site, 100).y, return_counts=True)[1].tolist() == [97, 20]
    assert sample(site, None) is site
    with pytest.raises(InputError, match="rows=0"):
        sample(site, 0)


def test_renaming():
    data = load_set("wine")
    assert [site.name for site in data.rename(["a", "b", "c"]).test] == ["a", "b", "c"]
    with pytest.raises(InputError, match="2 names were given for the 3 sites"):
        data.rename(["a", "b"])
    with pytest.raises(InputError, match="no words were given for the sites site-1"):
        data.relabel({})


def test_gaps_are_filled_from_the_sites_own_training_rows(tmp_path):
    nan = np.nan
    X = np.array([[1, nan, 5]] * 4 + [[nan, nan, 5]] + [[9, 2, 5]] * 5, np.float64)
    file = tmp_path / "heart.npz"
    np.savez(
        file,
        X=X,
        y=np.array([0, 1] * 5),
        site=np.repeat([0, 1], 5),
        site_names=["a", "b"],
        feature_names=np.array(["u", "v", "w"]),
    )
    data = heart("heart", file, test_share=0.0)
    assert data.train[0].columns == ("u", "w")  # v is empty at a, and so left out everywhere
    assert data.train[0].X.tolist() == [[1, 5]] * 5
    assert data.classes == ("disease", "healthy")

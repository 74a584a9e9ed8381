"""NumPy archives: keys, shapes, and no pickles."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.readers import read_site
from fedgeom.errors import InputError


def test_npz(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(
        file, X=np.eye(3), emb=np.ones((3, 2)), y=np.array([0, 1, 1]), short=np.zeros(2), cube=np.zeros((3, 1, 1))
    )
    assert read_site(file, label="y").X.shape == (3, 3)
    site = read_site(file, label="y", columns="emb")
    assert site.X.shape == (3, 2)
    assert site.y.tolist() == [0, 1, 1]
    assert read_site(file, label="y", columns="cube").X.shape == (3, 1)
    for options, message in [
        ({"label": "z"}, "no key 'z'; its keys are"),
        ({"label": "y", "columns": ["X"]}, "wanted one key"),
        ({"label": "short"}, r"'short' has shape \(2,\); wanted one value for each of 3 rows"),
        ({"label": "y", "columns": "y"}, "wanted a table of numbers"),
        ({"label": "cube"}, "wanted one value for each"),
    ]:
        with pytest.raises(InputError, match=message):
            read_site(file, **options)


def test_npz_never_unpickles(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(InputError, match="without pickles"):
        read_site(file, label="y")
    file.write_bytes(b"not an archive")
    with pytest.raises(InputError, match="cannot be read"):
        read_site(file, label="y")


def test_other_keys_say_the_patient_of_each_row(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, X=np.eye(4, dtype=np.float32), y=[0, 0, 1, 1], patient=[7, 7, 8, 9])
    site = read_site(file, label="y", group="patient")
    assert site.groups.tolist() == ["7", "7", "8", "9"]
    assert site.table.dtype == np.float32
    with pytest.raises(InputError, match=r"no key 'patien'; .*Did you mean 'patient'\?"):
        read_site(file, label="y", group="patien")

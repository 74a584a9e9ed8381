"""Methods by name, and models from files and folders."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.methods import HOMES
from fedgeom.methods.catalogue import load_model, method_class, read_model
from fedgeom.testing import example_sites


def test_a_method_is_found_by_its_name() -> None:
    assert method_class("hulls") is fedgeom.Hulls
    assert method_class("fedavg") is fedgeom.FedAvg
    with pytest.raises(InputError, match="there is no method 'hull'; there are: ellipses, hulls"):
        method_class("hull")


def test_a_model_comes_back_from_its_file_from_a_runs_folder_and_from_bytes(tmp_path) -> None:
    sites = example_sites()
    run = fedgeom.run(fedgeom.Moments(), sites, record=tmp_path / "run")
    run.model.save(tmp_path / "model.safetensors")
    for found in (
        load_model(tmp_path / "run"),
        load_model(tmp_path / "model.safetensors"),
        read_model(run.model.to_bytes()),
    ):
        assert found.to_bytes() == run.model.to_bytes()
        assert (found.predict(sites[0].X) == run.model.predict(sites[0].X)).all()


def test_what_is_no_model_is_refused_in_words(tmp_path) -> None:
    with pytest.raises(InputError, match=r"does not exist; wanted a run's folder.* or a model file"):
        load_model(tmp_path / "absent")
    with pytest.raises(InputError, match=r"has no model\.safetensors, so it is no finished run's$"):
        load_model(tmp_path)
    (tmp_path / "other.safetensors").write_bytes(b"no model")
    with pytest.raises(InputError, match="not a fedgeom model file"):
        load_model(tmp_path / "other.safetensors")


def test_a_folder_without_a_model_says_what_is_missing(tmp_path) -> None:
    sites = example_sites()
    with pytest.raises(TooFewSitesError):
        fedgeom.run("moments", sites, record=tmp_path / "runs" / "a", interfere=lambda site, request: "gone")
    with pytest.raises(
        InputError, match=r"the run in .*a left no model.safetensors \(status failed: 0 sites .*run it again"
    ):
        load_model(tmp_path / "runs" / "a")
    fedgeom.run("moments", sites, record=tmp_path / "runs" / "b")
    with pytest.raises(InputError, match=r"runs has no model.safetensors.*; there is one in b$"):
        load_model(tmp_path / "runs")


@pytest.mark.parametrize("name", sorted(HOMES))
def test_every_methods_settings_may_come_from_numpy(name: str) -> None:
    """`Hulls(epsilon=np.float64(.1))` once failed to encode; a search over `np.linspace` gives such numbers."""
    method = getattr(fedgeom, name)()
    numbers = {key: _numpy(value) for key, value in method.get_params(deep=False).items()}
    again = type(method)(**numbers)
    assert again == method
    assert msgspec.msgpack.encode(again.terms()) == msgspec.msgpack.encode(method.terms())


def _numpy(value: object) -> object:
    """Return a number, a text or a list of these as NumPy has them."""
    if isinstance(value, tuple) and value and all(isinstance(one, int | float | str) for one in value):
        return np.array(value)
    return np.array(value)[()] if isinstance(value, bool | int | float | str) else value

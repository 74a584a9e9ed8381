"""Where a site computes."""

from __future__ import annotations

import pytest

from fedgeom.errors import InputError
from fedgeom.federation.policy import DEVICE_VARIABLE
from fedgeom.methods.iterative.learners.torch_module import site_device
from tests.methods.iterative.torching import torch


def test_a_site_computes_on_its_processor_unless_it_says_otherwise(monkeypatch):
    monkeypatch.delenv(DEVICE_VARIABLE, raising=False)
    assert site_device() == torch.device("cpu")
    monkeypatch.setenv(DEVICE_VARIABLE, "gpu")
    with pytest.raises(InputError, match="wanted one of cpu, cuda, mps"):
        site_device()


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused(monkeypatch, name):
    module = torch.cuda if name == "cuda" else torch.backends.mps
    monkeypatch.setenv(DEVICE_VARIABLE, name)
    monkeypatch.setattr(module, "is_available", lambda: False)
    with pytest.raises(InputError, match="no such device here"):
        site_device()
    monkeypatch.setattr(module, "is_available", lambda: True)
    assert site_device().type == name

"""Where a site computes: its own choice, which no terms name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fedgeom.errors import InputError
from fedgeom.federation.policy import DEVICE_VARIABLE

if TYPE_CHECKING:
    import torch

DEVICES = ("cpu", "cuda", "mps")


def site_device() -> torch.device:
    """Return the device that this process computes on; refuse one that is not there."""
    import torch  # optional

    name = os.environ.get(DEVICE_VARIABLE, "cpu")
    if name not in DEVICES:
        raise InputError(f"{DEVICE_VARIABLE}={name} given; wanted one of {', '.join(DEVICES)}")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[name]:
        raise InputError(f"{DEVICE_VARIABLE}={name} given, but torch finds no such device here; use cpu")
    return torch.device(name)

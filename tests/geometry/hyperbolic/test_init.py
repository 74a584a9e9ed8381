"""Names of the hyperbolic room are loaded when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedgeom.geometry import hyperbolic


def test_import_stays_light():
    code = (
        "import sys, fedgeom.geometry.hyperbolic as g; g.convex_hull, g.PolarGrid, g.uniform_disc;"
        "print([m for m in ('scipy', 'sklearn', 'matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_name_can_be_loaded_and_others_cannot():
    assert dir(hyperbolic)
    for name in dir(hyperbolic):
        assert getattr(hyperbolic, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'horosphere'"):
        hyperbolic.horosphere  # noqa: B018

"""The Poincaré ball: points, hulls, grids, samples and hyperplanes.

Names are loaded when they are
first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgeom.geometry.hyperbolic import poincare
    from fedgeom.geometry.hyperbolic.grid import EqualAreaGrid, Grid, PolarGrid
    from fedgeom.geometry.hyperbolic.hull import convex_hull, default_trim, graham_scan, trimmed_hull
    from fedgeom.geometry.hyperbolic.isometry import Isometry, procrustes
    from fedgeom.geometry.hyperbolic.sampling import LabelledDisc, labelled_disc, uniform_disc

__all__ = [
    "EqualAreaGrid",
    "Grid",
    "Isometry",
    "LabelledDisc",
    "PolarGrid",
    "convex_hull",
    "default_trim",
    "graham_scan",
    "labelled_disc",
    "poincare",
    "procrustes",
    "trimmed_hull",
    "uniform_disc",
]

_HOME = {
    "EqualAreaGrid": "grid",
    "Grid": "grid",
    "Isometry": "isometry",
    "LabelledDisc": "sampling",
    "PolarGrid": "grid",
    "convex_hull": "hull",
    "default_trim": "hull",
    "graham_scan": "hull",
    "labelled_disc": "sampling",
    "procrustes": "isometry",
    "trimmed_hull": "hull",
    "uniform_disc": "sampling",
}


def __getattr__(name: str) -> Any:
    """Load a public name from the module where it lives."""
    if name == "poincare":
        return import_module(f"{__name__}.poincare")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)

"""Which method is right where one label name means one thing everywhere: `Ridge`, unless rows are points of the disc.

`Ridge` over the columns and Fourier features of them, classes balanced, was on average at least as good as `Moments`
on real sets, by far where columns are many, and it scales columns by itself; ``benchmarks/default_method.py`` measured
it, and docs/choosing.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedgeom.data.sites import SiteData
from fedgeom.federation.method import METHODS
from fedgeom.methods.ridge.features import Fourier
from fedgeom.methods.ridge.settings import RidgeSettings

WIDEST = RidgeSettings.max_features - Fourier.count
"""The most columns that Ridge takes as they are, beside Fourier features."""

USUAL: dict[str, Any] = {"rule": "discriminant", "balanced": True, "alpha": "folds"}
"""Discriminants, since with many classes the largest score loses those between others; and folds, since generalised
cross-validation takes rows for equals, which balanced ones are not: it chose too small a λ."""


@dataclass(frozen=True)
class Suited:
    """A method that suits sites, with the settings that their tables ask for, and why it does."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def for_shared_names(
    sites: Sequence[SiteData], said: Mapping[str, Any], *, in_disc: bool, prepared: bool = False
) -> Suited:
    """Return the method for sites that share their label names; ``said`` are the settings that a file has.

    Settings that only one of the methods knows mean that one. How many columns are left of rows that are ``prepared``
    first is not known here.
    """
    known = {name: set(METHODS.find(name).__dataclass_fields__) for name in ("moments", "ridge")}
    meant = [
        name for name, own in known.items() if any(key in own and key not in _other(known, name) for key in said)
    ]
    method = meant[0] if len(meant) == 1 else "moments" if in_disc else "ridge"
    if method == "moments":
        return Suited(method, {} if in_disc else {"space": "euclidean"})
    columns = sites[0].shape[1]
    if columns > WIDEST and not prepared:
        why = f"{columns:,} columns are too many for sums of their products, so that features are made of them"
        return Suited(method, USUAL | {"features": "fourier"}, "" if meant else why)
    return Suited(method, USUAL | {"features": ["linear", "fourier"]})


def _other(known: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the settings of the other methods."""
    return set().union(*(own for other, own in known.items() if other != name))

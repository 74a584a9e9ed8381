"""The settings of an update, which both halves know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.methods.ridge.settings import RidgeSettings

CHANGE = "change"
"""What a table's extra array is called that says of each row whether it is added, 1, or taken out, -1."""


@dataclass(frozen=True, kw_only=True)
class UpdateSettings(RidgeSettings):
    """Those of the ridge that is updated, and what stands for its sums."""

    since: str = ""
    """What stands for the features and sums that are updated, 64 hexadecimal digits: ``run.local[site]["statistics"]``
    at every site that took part."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.since) != 64 or set(self.since) - set("0123456789abcdef"):
            raise InputError(
                f"since={self.since!r} given; wanted the 64 hexadecimal digits that stand for the sums of a run with "
                "Ridge(updatable=True); in Python, run.update(…) knows them"
            )
        if not self.classes:
            raise InputError("an update needs `classes`, those of the ridge that is updated")
        if self.personal:
            raise InputError("personal=True given; an update makes the joint model only")


def signs_of(site: SiteData) -> npt.NDArray[np.float64]:
    """Return 1 for each row that is added and -1 for each that is taken out, (rows,), f8."""
    found = site.extra.get(CHANGE)
    if found is None or not np.isin(found, (-1, 1)).all():
        raise InputError(
            f"site {site.name!r}: wanted extra={{'{CHANGE}': …}} with 1 for each row that is added and -1 for each "
            "that is taken out"
        )
    return np.asarray(found, np.float64)

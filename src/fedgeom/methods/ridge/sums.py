"""Which sums there are, how they are divided and with how many digits: what both halves know of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bools
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.privacy import privacy_of
from fedgeom.methods.ridge.core import class_weights
from fedgeom.methods.ridge.gram import Rows, cuts, fold_numbers, fraction_bits, starts
from fedgeom.methods.ridge.learning import Fit
from fedgeom.methods.ridge.messages import (
    CountPatches,
    SumBounded,
    SumClusters,
    SumColumns,
    SumEvidence,
    SumGram,
    SumPatches,
    SumSurprise,
)
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.protocols.names.messages import CountNames
from fedgeom.protocols.secure_sum.messages import SumQuestion

ENVELOPE = 65_536
"""Bytes that are allowed for what is in a message beside the numbers."""
CALIBRATED = 2000
"""Temperatures are tried on about this many rows of all sites, or on all if there are fewer."""


def planned_sums(settings: RidgeSettings) -> tuple[type[SumQuestion], ...]:
    """Return the secure sums of a run, in order."""
    if privacy_of(settings) is not None:
        return (SumBounded,)
    conv = settings.conv
    learning: tuple[type[SumQuestion], ...] = (SumColumns,)
    if conv is not None:
        learning += (SumPatches, *(CountPatches, SumClusters) * conv.rounds)
    last = (SumSurprise, SumEvidence) if settings.personal else (SumSurprise,)
    return (CountNames, *learning, *(SumGram,) * settings.planned_parts, *last)


def gram_parts(settings: RidgeSettings, features: int, classes: int) -> list[Rows]:
    """Return which rows each sum of the Gram matrix has; with folds, all rows come once for each."""
    return cuts(features, classes, settings.part) * settings.folds


def check_part(settings: RidgeSettings, features: int, classes: int, limit: int) -> None:
    """Refuse parts of the sum that no message of ``limit`` bytes could hold; say what to do."""
    rows, at = gram_parts(settings, features, classes), starts(features, classes)
    size = 8 * max(int(at[last] - at[first]) for first, last in rows) + ENVELOPE
    if size > limit:
        raise InputError(
            f"a part of the sum is a message of {size:,} bytes; the limit is {limit:,} (max_message_bytes in the "
            f"policy): say part = {max((limit - ENVELOPE) // 8, 0)} or less, which divides the sum"
        )


def gram_bits(settings: RidgeSettings, fit: Fit, sites: int) -> int:
    """Return how many binary digits after the point the Gram matrix is summed with."""
    heaviest = float(class_weights(fit.class_counts()).max(initial=1.0)) if settings.balanced else 1.0
    return fraction_bits(fit.rows(), max(one.mean_square for one in settings.maps), sites, heaviest)


ROOM = 2.0**12
"""How much larger the mean square of changed rows' features may be than of those that the features were made for."""


def change_bits(settings: RidgeSettings, changed: float, sites: int) -> int:
    """Return how many binary digits after the point a change of the Gram matrix is summed with."""
    return fraction_bits(changed, ROOM * max(one.mean_square for one in settings.maps), sites)


def rows_of(site: SiteData) -> npt.NDArray[Any]:
    """Return a site's rows in the type in which they came, such as bytes for images; sparse ones are made dense."""
    return site.table if isinstance(site.table, np.ndarray) else site.X


def tried_rows(X: npt.NDArray[Any], rows: float) -> Bools:
    """Return on which rows temperatures are tried: by their content, so that it does not matter who has them."""
    every = max(int(rows) // CALIBRATED, 1)
    return fold_numbers(X, every) == 0 if every > 1 else np.ones(len(X), bool)

"""The plain twin of preparation: the same sums over tables in one place, without messages, masks or other sites."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.federation.joint_columns import (
    agree,
    category_floors,
    joint_columns,
    own_columns,
    own_counts,
    uses_union,
    with_given_words,
)
from fedgeom.federation.preparation import Fitting, Preparation
from fedgeom.federation.steps import Step


def fit_plain(
    steps: Sequence[Step],
    sites: Sequence[SiteData],
    seed: int = 0,
    floors: tuple[int, int] = (1, 1),
    *,
    private: bool = False,
) -> Preparation:
    """Return the preparation that a run over these sites would come to; ``private``: with bounds, but without noise."""
    told = {site.name: own_columns(site, steps, 0, private=private) for site in sites}
    agreed = agree(told, union=uses_union(steps))
    counts = np.array([own_counts(agreed, told[site.name], len(site)) for site in sites])
    raw = joint_columns(agreed, (counts > 0).sum(axis=0), counts.sum(axis=0), category_floors(steps, floors))
    raw = with_given_words(raw, steps)
    fitting = Fitting(tuple(steps), raw, seed, floors, len(sites), [], uses_union(steps), private)
    scratch: list[dict[object, object]] = [{} for _ in sites]
    while fitting.next() is not None:
        terms = [fitting.summand(site, own).view(np.uint64) for site, own in zip(sites, scratch, strict=True)]
        fitting.take(np.add.reduce(np.array(terms), axis=0, dtype=np.uint64))
    return fitting.finished()

"""With privacy no site refuses over how many rows a class has: that it does would tell of one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, Ellipses, FedAvg, InputError, Moments, Policy, Ridge, SiteData

CLASSES = ("no", "yes")
USUAL: dict[str, Any] = {"classes": CLASSES, "min_sites": 3, "privacy": DP(epsilon=1, clip=2)}
TRAINED: dict[str, Any] = {"scale": "none", "n_rounds": 2}
METHODS = {
    "moments": Moments(space="euclidean", **USUAL),
    "ridge": Ridge(features="linear", **USUAL),
    "ellipses": Ellipses(names="shared", scale="none", **USUAL),
    "per row": FedAvg(steps=1, batch_size=None, **TRAINED, **USUAL),
    "per site": FedAvg(weights="sites", **TRAINED, **USUAL | {"privacy": DP(epsilon=1, clip=2, unit="site")}),
}


def site(name: str, rows: int, of_yes: int) -> SiteData:
    y = np.array(["yes"] * of_yes + ["no"] * (rows - of_yes))
    return SiteData(name, np.random.default_rng(rows).normal(size=(rows, 3)), y)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("few", [(40, 1), (3, 1), (40, 0)])
def test_a_class_of_one_row_keeps_no_site_out(name: str, few: tuple[int, int]) -> None:
    sites = [site("a", 40, 20), site("b", 41, 20), site("c", *few)]
    strict = Policy(min_rows_per_class=5, min_batch_size=8)
    run = fedgeom.run(METHODS[name], sites, policy=strict, seed=0)
    assert run.model.classes_.tolist() == list(CLASSES)


def test_without_privacy_the_floors_hold() -> None:
    with pytest.raises(InputError, match="fewer than 5 rows: 'yes'"):
        fedgeom.run(
            Moments(space="euclidean", classes=CLASSES),
            [site("a", 40, 20), site("b", 41, 20), site("c", 40, 1)],
            policy=Policy(min_rows_per_class=5),
        )

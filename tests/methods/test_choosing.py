"""docs/choosing.md recommends calls that run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fedgeom

PAGE = (Path(__file__).parents[2] / "docs" / "choosing.md").read_text(encoding="utf-8")
CALLS = sorted(set(re.findall(r"`([A-Z]\w+\([^`]*\))`", PAGE)))
IN_THE_BALL = ("Moments()", "Hulls()")


def table() -> list[fedgeom.SiteData]:
    """Return sites with ordinary columns, far from any ball, and a label on every second row for XCLP."""
    return fedgeom.load_set("wine", n_sites=4).train


@pytest.mark.parametrize("call", CALLS)
def test_what_the_page_recommends_runs_as_written(call: str) -> None:
    method = eval(f"fedgeom.{call}")  # our own page
    sites = fedgeom.load_set("synthetic", points=400, n_sites=4).train if call in IN_THE_BALL else table()
    run = fedgeom.run(method, sites)
    assert not run.lost
    right = np.mean(np.concatenate([run.model.predict(site.X) == site.y.astype(str) for site in sites]))
    assert call == "Hulls()" or right > 0.6  # hulls number their classes


def test_the_page_recommends_something() -> None:
    assert 'Moments(space="euclidean")' in CALLS


def test_a_table_given_to_the_ball_is_told_of_the_other_space() -> None:
    with pytest.raises(fedgeom.InputError, match=r'table of ordinary columns.*say space="euclidean"'):
        fedgeom.run("moments", table())

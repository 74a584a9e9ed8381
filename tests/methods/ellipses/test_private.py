"""Ellipses with differential privacy: what one row can move, and what is matched from noisy Gaussians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, Ellipses, InputError, SiteData
from fedgeom.methods.ellipses import core
from fedgeom.methods.ellipses.core import EllipseLayout

pytestmark = pytest.mark.usefixtures("fixed_noise")

WORDS = {"n": ("a", "b", "c"), "s": ("x", "y", "z"), "w": ("one", "two", "three")}


def table(name: str, rows: int = 900, words: tuple[str, ...] | None = None) -> SiteData:
    rng = np.random.default_rng([5, *name.encode()])
    y = rng.integers(0, 3, rows)
    X = rng.normal(scale=0.25, size=(rows, 3)) + np.eye(3)[y]
    return SiteData(name, X, np.array(words or WORDS[name])[y])


def job(**settings: Any) -> Ellipses:
    usual = {"n_classes": 3, "scale": "none", "min_sites": 3, "privacy": DP(epsilon=4, clip=1.6)}
    return Ellipses(**usual | settings)


def test_no_row_moves_the_numbers_by_more_than_is_reckoned_with() -> None:
    rng, layout, settings = np.random.default_rng(0), EllipseLayout(3, 2, 3, 1), job()
    V, y = rng.normal(scale=2.0, size=(30, 3)), np.array(["p", "q"])[rng.integers(0, 2, 30)]
    places, most = {"p": 4, "q": 3}, core.bounds(layout)
    whole = core.bounded_gaussians(V, y, places, layout, settings)
    assert len(whole) == most["numbers"] == 6 * (1 + 3 + 6)
    moved = []
    for at in range(30):
        kept = np.arange(30) != at
        less = core.bounded_gaussians(V[kept], y[kept], places, layout, settings)
        moved.append(float(np.linalg.norm((whole - less).astype(np.float64))))
    assert 0.8 * most["sensitivity"] < max(moved) <= most["sensitivity"]


def test_own_words_are_matched_from_noisy_gaussians() -> None:
    run = fedgeom.run(job(), [table(name) for name in "nsw"], seed=0)
    assert run.metrics["noise on counts"] > 1
    for name in "nsw":
        mine = run.model.for_site(run.local[name])
        test = table(name, 300)
        assert (mine.predict(test.X) == test.y).mean() > 0.95
    assert run.local["n"]["names"] == {
        word: run.local["s"]["names"][other] for word, other in zip(WORDS["n"], WORDS["s"], strict=True)
    }


def test_shared_words_are_learnt_and_tested_with_noise() -> None:
    words = ("a", "b", "c")
    sites = [table(name, words=words) for name in "nsw"]
    found = fedgeom.run(job(n_classes=None, names="shared", classes=words, holdout=0.2), sites, seed=0)
    test = table("t", words=words)
    assert (found.model.predict(test.X) == test.y).mean() > 0.95
    assert found.evaluation is not None


def test_a_class_of_one_row_changes_nothing_that_can_be_seen() -> None:
    sites = [table(name) for name in "nsw"]
    odd = SiteData("n", sites[0].X[:-1], np.where(sites[0].y[:-1] == "c", "b", sites[0].y[:-1]))
    odd.y[0] = "r"
    run = fedgeom.run(job(), [odd, *sites[1:]], seed=0)
    assert "r" in run.local["n"]["unknown"]
    assert run.metrics["gaussians"] == 8


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scale": "joint"}, "wanted scale='none'"),
        ({"n_classes": "most"}, "wanted n_classes='their number'"),
        ({"n_classes": None}, "wanted n_classes='their number'"),
        ({"n_components": 2}, "wanted n_components=1"),
        ({"depth": "mixed"}, "wanted depth='same'"),
        ({"holdout": 0.2}, "wanted holdout=None"),
        ({"n_classes": None, "names": "shared"}, "needs the label names in its terms"),
        ({"privacy": DP(epsilon=1, clip=1, unit="site")}, 'wanted unit="row"'),
    ],
)
def test_what_has_no_bound_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        job(**settings)


def test_a_plain_twin_and_too_few_rows_say_so() -> None:
    with pytest.raises(InputError, match="the plain run adds no noise"):
        job().plain([table("n")])
    with pytest.raises(InputError, match=r"lost in the noise|fall into"):
        fedgeom.run(job(privacy=DP(epsilon=0.01, clip=1.6)), [table(name, 20) for name in "nsw"])

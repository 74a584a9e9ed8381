"""Words that were mixed up, and words that look like synonyms."""

from __future__ import annotations

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.federation.record import read_warnings
from fedgeom.federation.word_warnings import disjoint_words, mixed_words


def words(*names: tuple[str, ...]) -> list[SiteData]:
    rng = np.random.default_rng(0)
    return [
        SiteData(f"s{at}", rng.normal(size=(20, 3)), np.array(mine)[np.arange(20) % len(mine)])
        for at, mine in enumerate(names)
    ]


def test_one_word_in_two_classes_and_two_words_in_one() -> None:
    good = {"a": {"names": {"x": 0, "y": 1}}, "b": {"names": {"u": 0, "y": 1}}, "c": {}}
    assert mixed_words(good) == []
    apart, together = mixed_words(good | {"c": {"names": {"y": 0, "x": 0}}})
    assert apart.what == "1 words were put into several classes"
    assert apart.why == "'y' is class 0 at c and class 1 at a, b"
    assert together.why == "'x' and 'y' are class 0 at c"
    assert "n_classes" in together.remedy


def test_many_words_are_counted() -> None:
    local = {site: {"names": {f"w{at:02d}": at + group for at in range(12)}} for group, site in enumerate("ab")}
    (apart,) = mixed_words(local)
    assert apart.why.endswith("'w07' is class 7 at a and class 8 at b; and 4 more")


def test_words_that_no_two_sites_share_look_like_synonyms() -> None:
    assert disjoint_words(words(("a", "b"), ("b", "c"))) == []
    assert disjoint_words(words(("a", "b"))) == []
    (found,) = disjoint_words(words(("gut", "böse"), ("benign", "malignant")))
    assert "each of the 4 names became a class" in found.what
    assert "s0 says 'böse', 'gut'" in found.why


def test_a_run_over_three_vocabularies_warns(tmp_path) -> None:
    sites = words(("a", "b"), ("c", "d"), ("e", "f"))
    for method in (fedgeom.FedAvg(rounds=1), fedgeom.Moments(space="euclidean")):
        folder = tmp_path / method.name
        run = fedgeom.run(method, sites, record=folder)
        assert [warning.what[:40] for warning in run.warnings] == ["no label name is shared by two sites, an"]
        assert read_warnings(folder) == run.warnings
    assert not fedgeom.run(fedgeom.FedAvg(rounds=1, classes=("a", "b", "c", "d", "e", "f")), sites).warnings


def test_hulls_that_mix_words_warn() -> None:
    rng = np.random.default_rng(1)
    centres = {"x": (-0.4, 0.0), "y": (0.4, 0.0)}
    sites = []
    for at in range(4):
        swap = {"x": "y", "y": "x"} if at == 3 else {"x": "x", "y": "y"}  # the same words, the other way round
        X = np.vstack([rng.normal(centres[swap[word]], 0.05, size=(25, 2)) for word in "xy"])
        sites.append(SiteData(f"s{at}", X, np.repeat(["x", "y"], 25)))
    run = fedgeom.run(fedgeom.Hulls(n_classes=2), sites)
    (found,) = run.warnings
    assert found.what == "2 words were put into several classes"
    assert "at s3" in found.why
    assert len(repr(run)) < 300

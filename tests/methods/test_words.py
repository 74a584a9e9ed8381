"""Words that were mixed up, and words that look like synonyms."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS, methods_that_match
from fedgeom.federation.record import read_warnings
from fedgeom.methods.label_names import disjoint_words, look_ahead, look_at_names, mixed_words


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
    assert "each of the 4 names is a class" in found.what
    assert "s0 says 'böse', 'gut'" in found.why


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ((("a", "b"), ("a", "b")), "shared"),
        ((("a", "b"), ("b",), ("a",)), "shared"),  # donors that lack classes
        ((("a", "b"), ("b", "rare")), "shared"),
        ((("a", "b"), ("c", "d")), "own"),
        ((("a", "b", "other"), ("c", "d", "other")), "mixed"),  # one word in common by chance
        ((("a", "b"), ("a", "b"), ("x", "y")), "mixed"),
        ((("a", "b"),), "shared"),
    ],
)
def test_what_the_words_look_like(names: tuple[tuple[str, ...], ...], kind: str) -> None:
    assert look_at_names(words(*names)).kind == kind


def test_what_was_seen_of_the_words_is_said() -> None:
    seen = look_at_names(words(("a", "b"), ("b", "c", "d")))
    said = "2 sites have 2 to 3 label names each, 4 different ones in all, 1 of them at several sites"
    assert str(seen) == said


def test_rows_without_a_label_are_no_word() -> None:
    sites = words(("", "a"), ("", "b"))
    assert look_at_names(sites).kind == "own"
    assert look_ahead(fedgeom.XCLP(), words(("-1", "a"), ("-1", "b")))


def test_which_methods_match_names() -> None:
    assert methods_that_match() == ["ellipses", "hulls"]
    assert fedgeom.Moments().shares_names
    assert fedgeom.Hulls(names="shared").shares_names
    assert not fedgeom.Hulls().shares_names


def test_every_method_that_goes_by_words_is_warned_before_it_runs() -> None:
    sites = words(("a", "b"), ("c", "d"))
    goes_by_words = [
        cls for cls in METHODS.values() if cls.__module__.startswith("fedgeom.") and not cls.matches_names
    ]
    assert len(goes_by_words) > 10
    for cls in goes_by_words:
        (found,) = look_ahead(cls(), sites)
        assert "(ellipses, hulls)" in found.remedy
    assert look_ahead(fedgeom.Hulls(names="shared"), sites)
    assert not look_ahead(fedgeom.Hulls(), sites)
    assert not look_ahead(fedgeom.Moments(classes=("a", "b", "c", "d")), sites)


def test_a_run_over_three_vocabularies_warns(tmp_path, caplog) -> None:
    sites = words(("a", "b"), ("c", "d"), ("e", "f"))
    for method in (
        fedgeom.FedAvg(n_rounds=1),
        fedgeom.Moments(space="euclidean"),
        fedgeom.XCLP(graph="anchors", n_anchors=6, n_rounds=2),
    ):
        folder = tmp_path / method.name
        caplog.clear()
        run = fedgeom.run(method, sites, record=folder)
        assert [record.getMessage() for record in caplog.records] == [str(run.warnings[0])]
        assert [warning.what[:40] for warning in run.warnings] == ["no label name is shared by two sites, an"]
        assert read_warnings(folder) == run.warnings
    assert not fedgeom.run(fedgeom.FedAvg(n_rounds=1, classes=("a", "b", "c", "d", "e", "f")), sites).warnings


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
    assert re.search(r"at s3 \(certain: 0\.12 away, with class \d it would be 1\.46\)", found.why)
    assert 'names = "shared"' in found.remedy
    assert len(repr(run)) < 300


@pytest.mark.parametrize("name", ["Moments", "FedAvg", "Ridge", "HyperFed", "XCLP", "Shrunk", "PTopoFL"])
def test_own_names_are_refused_in_words_where_a_method_cannot_match_them(name: str) -> None:
    """In Python it was a bare TypeError; in a federation file it was told."""
    method = getattr(fedgeom, name)
    with pytest.raises(InputError, match=rf'names="own" given, but {name} goes by shared names; .*hulls.*relabel'):
        method(names="own")
    with pytest.raises(InputError, match="always; leave it out"):
        method(names="shared")


def test_a_setting_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Moments has no setting 'spce'; it has .*\. Did you mean 'space'\?"):
        fedgeom.Moments(spce="euclidean")
    with pytest.raises(InputError, match=r"names='mine' given; wanted one of 'own', 'shared'"):
        fedgeom.Hulls(names="mine")

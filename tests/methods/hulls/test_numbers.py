"""No silent number of classes: what is likely wrong is refused, what may be wrong is said."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.methods.label_names import unequal_numbers

CENTRES = {"a": (0.5, 0.0), "b": (-0.5, 0.0), "c": (0.0, 0.5), "d": (0.0, -0.5)}


def donors(*classes: str, own: bool = False) -> list[SiteData]:
    """Return sites that have some of four classes each, under names that all share or their own."""
    rng = np.random.default_rng(0)
    sites = []
    for at, mine in enumerate(classes):
        X = np.vstack([rng.normal(CENTRES[one], 0.05, size=(20, 2)) for one in mine])
        words = [f"{at}{one}" if own else one for one in mine]
        sites.append(SiteData(f"s{at}", X, np.repeat(words, 20)))
    return sites


def test_more_shared_words_than_classes_at_any_site_are_asked_about() -> None:
    sites = donors("abc", "bcd", "abcd"[:2])
    with pytest.raises(
        InputError, match=r'have 2, 3, 3 classes and 4 different words.*names="shared".*n_classes=…'
    ):
        fedgeom.run(fedgeom.Hulls(), sites)
    assert fedgeom.run(fedgeom.Hulls(n_classes=4), sites).metrics["classes"] == 4
    assert fedgeom.run(fedgeom.Hulls(n_classes="most"), sites).metrics["classes"] == 3
    assert fedgeom.run(fedgeom.Hulls(names="shared"), sites).metrics["classes"] == 4


def test_sites_with_fewer_classes_and_their_own_words_are_warned_of() -> None:
    sites = donors("abc", "abc", "ab", own=True)
    run = fedgeom.run(fedgeom.Hulls(), sites)
    (found,) = run.warnings
    assert found.what == "3 classes were assumed, the most at any site"
    assert "the sites have 2, 3, 3" in found.why
    assert "n_classes=" in found.remedy
    for number in ("most", 3):
        assert not fedgeom.run(fedgeom.Hulls(n_classes=number), sites).warnings


def test_nothing_is_said_where_all_sites_have_as_many() -> None:
    assert not fedgeom.run(fedgeom.Hulls(), donors("abc", "abc", "abc", own=True)).warnings
    assert unequal_numbers([3, 3]) == []


def test_many_numbers_are_shortened() -> None:
    (found,) = unequal_numbers(list(range(2, 30)))
    assert "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, … and 29" in found.why


def test_one_shared_word_is_no_class_to_tell_apart() -> None:
    with pytest.raises(InputError, match="all rows of all sites are 'a'"):
        fedgeom.run(fedgeom.Hulls(names="shared"), donors("a", "a", "a"))
    with pytest.raises(InputError, match="labels missing everywhere: z"):
        fedgeom.run(fedgeom.Hulls(names="shared", classes=("a", "b", "z")), donors("ab", "ab", "a"))

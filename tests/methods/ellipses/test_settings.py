"""Settings of Ellipses: what goes together."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.errors import InputError


def test_numbers_go_with_own_names_and_words_with_shared_ones() -> None:
    with pytest.raises(InputError, match="leave n_classes out"):
        fedgeom.Ellipses(names="shared", n_classes=3)
    with pytest.raises(InputError, match="cannot be listed"):
        fedgeom.Ellipses(classes=("a", "b"))


@pytest.mark.parametrize("settings", [{}, {"names": "shared"}])
def test_depth_needs_own_names_and_a_number(settings: dict[str, str]) -> None:
    with pytest.raises(InputError, match="the number of the finest classes in all"):
        fedgeom.Ellipses(depth="mixed", **settings)


def test_what_is_asked_follows_from_the_settings() -> None:
    def kinds(**settings: object) -> list[str]:
        method = fedgeom.Ellipses(**settings)
        *found, last = (question.kind for question in method.site.all_sums(method))
        assert last == "doubts.sum"
        return found

    assert kinds() == ["prepare.floors", "ellipses.scales", "ellipses.classes", "ellipses.sum"]
    assert kinds(n_classes=3, scale="none") == ["prepare.floors", "ellipses.sum"]
    assert kinds(n_classes=3, space="ball") == ["prepare.floors", "ellipses.sum"]
    assert kinds(n_classes=3, depth="mixed") == [
        "prepare.floors",
        "ellipses.scales",
        "ellipses.sum",
        "ellipses.covers",
    ]
    assert kinds(names="shared") == ["names.count", "prepare.floors", "ellipses.scales", "ellipses.sum"]

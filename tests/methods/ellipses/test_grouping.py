"""Matching: classes of one site are apart, numbers do not depend on the order, lumps stay lumps."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.ellipses.core import EllipseLayout, read_sum, write_classes
from fedgeom.methods.ellipses.matching import fit, match
from tests.methods.ellipses.making import cloud, own_words


def received(layout: EllipseLayout, method: fedgeom.Ellipses, turn: int = 0):
    sites = own_words()
    total, words = np.zeros(layout.length), {}
    for at, one in enumerate(sites):
        block = (at + turn) % len(sites)
        places = {
            str(word): (block * layout.classes + slot) * layout.components for slot, word in enumerate(one.classes)
        }
        words |= {slot // layout.components: (one.name, word) for word, slot in places.items()}
        total += write_classes(one.X, one.y.astype(str), places, layout, method, 6)
    return read_sum(total, layout), words


def test_each_class_is_found_at_every_site() -> None:
    method, layout = fedgeom.Ellipses(n_classes=4, scale="none"), EllipseLayout(3, 4, 4, 1)
    for turn in (0, 1):
        sums, words = received(layout, method, turn)
        matched = match(sums, layout, method, 0)
        groups: dict[int, set[str]] = {}
        for slot, group in zip(matched.slots.tolist(), matched.groups.tolist(), strict=True):
            groups.setdefault(group, set()).add(str(words[slot][1]))
        assert sorted(map(sorted, groups.values())) == [
            ["1", "a", "vier"],
            ["2", "b", "drei", "p"],
            ["4", "d", "eins", "r"],
            ["c", "q", "zwei"],
        ]
        assert all(one.verdict == "certain" for one in matched.evidence)
        first = matched.groups[[words[slot] == ("s0", "a") for slot in matched.slots.tolist()]]
        assert first.tolist() == [0]  # numbered by the means: class 0 is the lowest whoever comes first


def test_too_many_classes_are_refused() -> None:
    method, layout = fedgeom.Ellipses(n_classes=16, scale="none"), EllipseLayout(3, 4, 16, 1)
    with pytest.raises(InputError, match="n_classes is too large"):
        match(received(layout, method)[0], layout, method, 0)


def test_a_class_of_two_lumps_has_two_gaussians() -> None:
    method, layout = fedgeom.Ellipses(n_classes=2, scale="none", n_components=3), EllipseLayout(3, 2, 2, 3)
    total = np.zeros(layout.length)
    for at in range(2):
        V = np.vstack([cloud(at, 0), cloud(at, 3), cloud(at, 1)])
        y = np.repeat(["two", "one"], [120, 60])
        total += write_classes(V, y, {"two": 6 * at, "one": 6 * at + 3}, layout, method, 6)
    sums = read_sum(total, layout)
    model = fit(sums, match(sums, layout, method, 0), layout, method, None)
    assert sorted(np.bincount(model.groups).tolist()) == [1, 2]
    assert np.mean(model.predict(cloud(7, 0)) == model.predict(cloud(7, 3))) > 0.95


def test_the_linear_rule_has_one_covariance() -> None:
    method, layout = fedgeom.Ellipses(n_classes=4, scale="none", rule="linear"), EllipseLayout(3, 4, 4, 1)
    sums, _ = received(layout, method)
    model = fit(sums, match(sums, layout, method, 0), layout, method, None)
    assert (model.covariances == model.covariances[0]).all()

"""Words of the sites' own."""

from __future__ import annotations

import pytest

from fedgeom.data.datasets import SETS, available, load_set
from fedgeom.data.demo_data import WORDS, in_own_words


@pytest.mark.parametrize("name", WORDS)
def test_every_site_has_words_of_its_own(name):
    words = WORDS[name]
    commons = {frozenset(mine) for mine in words.values()}
    assert len(commons) == 1
    for mine in words.values():
        assert len(set(mine.values())) == len(mine)
    every = [word for mine in words.values() for word in mine.values()]
    assert len(set(every)) == len(every)
    if name not in available():
        pytest.skip(f"{SETS[name].file} is not here: {SETS[name].how_to_get}")
    data, truth = in_own_words(load_set(name))
    for site in data.train:
        assert {truth[site.name][word] for word in site.classes} == commons.copy().pop()

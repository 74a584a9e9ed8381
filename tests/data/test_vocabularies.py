"""Words of the sites' own."""

from __future__ import annotations

import pytest

from fedgeom.data.datasets import load_set
from fedgeom.data.demo_data import WORDS, in_own_words
from tests.tiers import set_cases


@pytest.mark.parametrize("name", WORDS)
def test_every_site_has_words_of_its_own(name):
    words = WORDS[name]
    commons = {frozenset(mine) for mine in words.values()}
    assert len(commons) == 1
    for mine in words.values():
        assert len(set(mine.values())) == len(mine)
    every = [word for mine in words.values() for word in mine.values()]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("name", set_cases(WORDS))
def test_every_class_of_a_set_has_a_word_at_every_site(name):
    data, truth = in_own_words(load_set(name))
    classes = set(next(iter(WORDS[name].values())))
    for site in data.train:
        assert {truth[site.name][word] for word in site.classes} == classes

"""Questions in plain words; tests/cli/test_screen.py asks that every question has some."""

from __future__ import annotations

from fedgeom.report.words import STAGES, SUMS, WORDS, in_words, stage_of


def test_words_and_stages_are_of_questions_that_there_are():
    assert set(SUMS) <= set(WORDS)
    assert {kind.partition(".")[0] for kind in WORDS} >= set(STAGES)
    assert in_words("sum.confirm") == "agree on who is in the sum"
    assert in_words("of.nobody") == "of.nobody"
    assert stage_of("join.hello") == "Getting together"
    assert stage_of("of.nobody") == "Learning"

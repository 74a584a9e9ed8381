"""What a site is told that the run goes on without."""

from __future__ import annotations

import logging

from fedgeom.federation.steps import Columns
from fedgeom.protocols.preparation import COLUMNS, WORDS, left_out, warn_of
from tests.preparation.raw import clinical


def test_columns_and_words_are_named_to_who_has_them(caplog):
    raw = Columns(width=2, names=("age", "ward"), categories={1: ("a", "b")}, together=(1,))
    found = left_out(clinical()[0], raw)
    assert found == {COLUMNS: ["crp", "bmi"], WORDS: ["ward = c", "ward = z"]}
    with caplog.at_level(logging.WARNING):
        warn_of("s0", found)
    assert "crp, bmi" in caplog.text
    assert left_out(clinical()[0], Columns(width=4)) == {}

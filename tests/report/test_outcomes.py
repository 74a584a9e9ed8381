"""How well a model does, on the page."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from msgspec.structs import replace

from fedgeom.evaluation.evaluation import SiteFigures
from fedgeom.report.outcomes import MOST_CONFUSED, outcomes
from fedgeom.report.page import page_of
from fedgeom.report.run_folder import read_run
from tests.evaluation.counting import figures
from tests.report.folders import folder_of


def test_figures_stand_beside_the_floor_with_their_intervals():
    made = outcomes(figures())
    assert "majority class" in made
    assert "0.700 [0.481, 0.855]" in made
    assert 'class="span strong"' in made
    assert "Most often, 3 times, no was taken for yes." in made
    assert "2 (no" not in made


def test_answers_that_are_none_of_the_words_have_a_column_only_where_there_are_any():
    with_none = figures()
    assert "none of these" in outcomes(with_none)
    clean = replace(with_none, confusion=[[9, 3, 0], [2, 6, 0], [0, 0, 0]])
    assert "none of these" not in outcomes(clean)


def test_of_many_classes_the_worst_pairs_are_listed():
    n = MOST_CONFUSED + 5
    counts = np.eye(n + 1, dtype=int) * 5
    counts[3, 4] = 7
    many = replace(figures(), classes=[f"class {at}" for at in range(n)], confusion=counts.tolist(), by_class=[])
    made = outcomes(many)
    assert "Most often, 7 times, class 3 was taken for class 4." in made
    assert 'class="confusion"' not in made


def test_two_hundred_sites_are_told_by_how_they_spread():
    by_site = [
        SiteFigures(site=f"s{at}", tested=20, accuracy={"own": at / 200, "local": 0.5}) for at in range(200)
    ]
    made = outcomes(replace(figures(), by_site=by_site))
    assert "from 0.000 to 0.995" in made
    assert "100 of 200 do at least as well as alone" in made
    assert "<summary>All 200 sites</summary>" in made


def test_without_a_test_it_is_said_how_to_have_one():
    assert "holdout = 0.25" in outcomes(None)


@pytest.mark.parametrize(
    ("state", "holdout", "said"),
    [
        ("running", 0.25, "The run goes on"),
        ("failed", 0.25, "did not come to its end"),
        ("finished", None, "no rows were kept aside"),
        ("finished", {"share": 0.25}, "rows were kept aside but not tested on"),
    ],
)
def test_what_is_said_of_an_untested_model_is_true_for_its_state(tmp_path, state, holdout, said):
    run = dataclasses.replace(read_run(folder_of(tmp_path)), evaluation=None)
    config = {**run.config, "parameters": {"holdout": holdout}}
    run = dataclasses.replace(run, status={**run.status, "state": state}, config=config)
    assert said in page_of(run).partition("<nav")[0]
    assert said in page_of(run).partition('id="result"')[2]


def test_the_verdict_stands_at_the_head_and_a_useless_model_is_marked(tmp_path):
    run = dataclasses.replace(read_run(folder_of(tmp_path)), evaluation=figures())
    head = page_of(run).partition("<nav")[0]
    assert "no better than always naming the majority class (0.600)" in head
    assert 'class="verdict doubt"' in head

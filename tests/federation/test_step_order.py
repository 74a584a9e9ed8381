"""In which order steps may stand, and what raw rows must be for the first that changes them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.federation.steps import numbers_only, unfit
from fedgeom.preparation import PCA, Clip, Impute, LogCounts, OneHot, Scale, SelectVariable, ToDisc
from tests.preparation.raw import clinical, counts

WRONG = {
    "gaps reach a scale": ((Scale(), Impute()), "'impute' after 'scale', which takes no gaps"),
    "gaps reach depths": ((LogCounts(), Impute()), "'impute' after 'log-counts', which takes no gaps"),
    "text comes late": ((Impute(), OneHot()), "'one-hot' after 'impute', which takes no text"),
    "no counts any more": ((Scale(), LogCounts()), "'log-counts', which wants counts, after 'scale'"),
    "twice": ((LogCounts(), LogCounts()), "'log-counts', which wants counts, after 'log-counts'"),
    "moved too late": ((Scale(), Clip(ranges=[-3, 3])), "'clip' after 'scale', which sums numbers"),
    "logarithms": (
        (LogCounts(), SelectVariable(9, flavor="seurat-v3")),
        "'select-variable', which wants counts, after 'log-counts'",
    ),
}


@pytest.mark.parametrize(("steps", "words"), WRONG.values(), ids=list(WRONG))
def test_a_step_that_would_get_what_it_cannot_take_is_refused_with_what_to_do(steps, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        fedgeom.Ridge(features="linear", prepare=steps)
    assert f": put {steps[1].name!r} " in str(caught.value)


@pytest.mark.parametrize(
    "steps",
    [
        (OneHot(), Impute(), LogCounts(), SelectVariable(9), Scale(), PCA(2)),
        (SelectVariable(9, flavor="seurat-v3"), LogCounts(), Scale(), ToDisc()),
        (OneHot(), Clip(ranges={"age": [0, 99]}), Impute(), Scale()),
    ],
)
def test_other_orders_stand(steps):
    assert fedgeom.Ridge(features="linear", prepare=steps).preparing == steps


def test_m4_no_step_stands_twice():
    with pytest.raises(InputError, match=r"'scale' twice; wanted each step once"):
        fedgeom.Ridge(features="linear", prepare=[Impute(), *[Scale()] * 1000])


def test_counts_below_zero_are_found_behind_a_step_that_fills_gaps_but_not_among_words():
    site = counts(1, sparse=False)[0]
    site.table[2, 3], site.table[5, 1] = -4, np.nan
    assert "down to -4" in unfit(site, [Impute(), LogCounts()])[0].what
    assert unfit(site, [Impute(), Scale(), LogCounts()]) == []  # refused by its order
    assert unfit(site, [Impute()]) == []
    assert "leave the step select-variable out" in unfit(site, [SelectVariable(9, flavor="seurat-v3")])[0].remedy
    assert unfit(site, [SelectVariable(9)]) == []
    words = clinical()[0]
    assert numbers_only(words).columns == ("age", "crp", "bmi")
    assert numbers_only(words, ["crp", "ward"]).columns == ("crp",)
    assert numbers_only(site) is site


def test_a_model_refuses_rows_that_are_no_counts_by_the_columns_it_knows():
    sites = counts(3, columns=12)
    model = fedgeom.run(fedgeom.Ridge(features="linear", prepare=[LogCounts()]), sites).model
    raw = sites[0].X.astype(float)
    other = fedgeom.SiteData(
        "X", np.column_stack([raw, -np.ones(len(raw))]), sites[0].y, columns=(*sites[0].columns, "umap")
    )
    assert np.array_equal(model.predict(other), model.predict(raw))
    raw[0, 0] = -1
    with pytest.raises(InputError, match="below 0, down to -1, which are no counts"):
        model.predict(raw)

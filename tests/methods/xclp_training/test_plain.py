"""Without masks, the training is that of a run; where labels come from makes a difference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.methods.laws import assert_run_is_plain
from tests.methods.xclp_training.making import ANCHORS, PAIRS, quick, sites


def test_drawn_sites_train_as_in_a_run():
    assert_run_is_plain(
        quick(rounds=4, share=0.6, min_sites=3, engine="scaffold", weights="rows"), sites(), seed=2
    )


def test_rows_are_compared_as_in_a_run():
    pytest.importorskip("seal", reason="needs seal-python")
    assert_run_is_plain(quick(labels=PAIRS), sites(3, rows=14), seed=2)


def test_sources_of_labels_make_different_models():
    data = sites()
    found = [quick(labels=one).plain(data).model.parameters.flat() for one in (ANCHORS, "site", "network", "none")]
    for at, one in enumerate(found):
        for other in found[:at]:
            assert np.abs(one - other).max() > 1e-4

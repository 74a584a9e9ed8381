"""What stands for the sums of a run."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.ridge.statistics import GRAM, FeatureFit, FeatureState, Statistics, stands_for


def made() -> Statistics:
    return Statistics(FeatureState(fit=FeatureFit(), seed=3, temperature=0.5), (np.arange(3.0), np.arange(2.0)))


def test_statistics_come_back_as_they_were_kept() -> None:
    one = made()
    again = Statistics.of(one.artifacts(), [3, 2])
    assert again.stands_for == one.stands_for
    assert again.made == one.made
    assert [part.tolist() for part in again.parts] == [[0, 1, 2], [0, 1]]


def test_any_other_number_feature_or_cut_stands_for_something_else() -> None:
    one = made()
    others = [
        Statistics(one.made, (np.arange(3.0), np.array([0.0, 1.0 + 1e-15]))),
        Statistics(one.made, (np.arange(2.0), np.array([2.0, 0.0, 1.0]))),
        Statistics(FeatureState(fit=FeatureFit(), seed=4, temperature=0.5), one.parts),
        Statistics(FeatureState(fit=FeatureFit(), seed=3, temperature=0.6), one.parts),
    ]
    assert len({one.stands_for, *(other.stands_for for other in others)}) == 5
    assert len(stands_for(b"", [])) == 64


def test_a_run_that_kept_nothing_or_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="updatable"):
        Statistics.of({}, [3, 2])
    kept = made().artifacts()
    with pytest.raises(InputError, match="wanted 5"):
        Statistics.of(kept | {GRAM: np.zeros(4)}, [3, 2])

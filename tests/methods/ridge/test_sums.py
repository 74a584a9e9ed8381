"""Which sums there are: they follow from the terms, fit into messages, and have digits enough."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import Ridge
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array
from fedgeom.methods.ridge.features import Fourier
from fedgeom.methods.ridge.messages import (
    CountPatches,
    SumCalibration,
    SumClusters,
    SumGram,
    SumPatches,
    SumRidgeColumns,
)
from fedgeom.methods.ridge.site import RidgeSite
from fedgeom.methods.ridge.statistics import FeatureFit, check_part, gram_bits, gram_parts, tried_rows
from fedgeom.protocols.doubts import SumDoubts
from fedgeom.protocols.names import CountNames
from fedgeom.protocols.preparation import SumFloors
from tests.methods.ridge.making import SHAPE, SMALL_CONV


def test_the_sums_follow_from_the_terms() -> None:
    assert tuple(RidgeSite.all_sums(Ridge(features=Fourier(n_components=9)))) == (
        CountNames,
        SumFloors,
        SumFloors,
        SumRidgeColumns,
        SumGram,
        SumCalibration,
        SumDoubts,
    )
    learnt = RidgeSite.all_sums(Ridge(features=SMALL_CONV, shape=SHAPE))
    steps = (CountPatches, SumClusters) * 2
    last = (SumCalibration, SumDoubts)
    assert tuple(learnt) == (CountNames, SumFloors, SumFloors, SumRidgeColumns, SumPatches, *steps, SumGram, *last)
    divided = Ridge(features=Fourier(n_components=30), classes=("a", "b"), max_sum_length=100, alpha="folds")
    assert (
        len(gram_parts(divided, 30, 2))
        == divided.planned_parts
        == tuple(RidgeSite.all_sums(divided)).count(SumGram)
    )


def test_temperatures_are_tried_on_some_thousand_rows_whoever_has_them() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 3))
    assert tried_rows(X, 3000).all()
    some = tried_rows(X, 30_000)
    assert 150 < some.sum() < 250
    np.testing.assert_array_equal(some[::-1], tried_rows(X[::-1], 30_000))


def test_weights_of_rare_classes_cost_digits() -> None:
    fit = FeatureFit(counts=Array.of(np.array([999.0, 1.0])))
    usual, heavy = (
        gram_bits(Ridge(features="linear"), fit, 4),
        gram_bits(Ridge(features="linear", balanced=True), fit, 4),
    )
    assert usual == 44  # the most there are
    assert heavy == 60 - 21  # 1,000 rows, 4 sites, and a row that counts 500


def test_a_part_is_as_large_as_a_message_may_be() -> None:
    method = Ridge(features=Fourier(n_components=200), classes=("a", "b"))
    check_part(method, 200, 2, 300_000)
    with pytest.raises(InputError, match="say max_sum_length = 4308 or less"):
        check_part(method, 200, 2, 100_000)
    with pytest.raises(InputError, match="take fewer features"):
        check_part(method, 200, 2, 66_000)

"""Whether raw tables can be prepared."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.preparation import Impute, OneHot, Scale
from fedgeom.protocols.preparation import check_no_text, raw_faults
from tests.preparation.raw import clinical


def test_text_wants_one_hot_and_gaps_want_impute():
    site = clinical()[0]
    assert raw_faults(site, [OneHot(), Impute(), Scale()]) == []
    assert [one.topic for one in raw_faults(site, [Scale()])] == ["text", "gaps"]
    assert [one.topic for one in raw_faults(site, [OneHot(), Scale()])] == ["gaps"]
    with pytest.raises(InputError, match='prepare = "table"'):
        check_no_text(site)
    assert [one.topic for one in raw_faults(site.take(np.zeros(len(site), bool)), [Scale()])] == ["rows"]


def test_a_method_without_steps_refuses_text_and_gaps_and_names_the_preset():
    with pytest.raises(InputError, match='prepare = "table"'):
        fedgeom.run(fedgeom.Ridge(features="linear"), clinical())


def test_checks_look_at_what_comes_out():
    report = fedgeom.check(fedgeom.Moments(prepare="table"), clinical())
    assert not report.ready
    assert "no points of the Poincaré ball" in str(report)
    assert fedgeom.check(fedgeom.Moments(prepare="table", space="euclidean"), clinical()).ready

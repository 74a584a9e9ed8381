"""The coordinator's half of preparation."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.preparation import Impute, OneHot
from tests.preparation.raw import clinical


def test_sites_whose_columns_differ_agree_and_are_told(caplog):
    sites = clinical()
    renamed = fedgeom.SiteData("s3", sites[3].X[:, [1, 0, 2]], sites[3].y, columns=("crp", "age", "own"))
    run = fedgeom.run(fedgeom.Ridge(features="linear", prepare=[OneHot(), Impute()]), [*sites[:3], renamed])
    assert run.model.column_names == ("age", "crp")
    assert run.local["s3"]["prepared"]["columns"] == 2
    assert "'s3': columns left out" in caplog.text


def test_a_lost_site_is_left_out():
    def interfere(site, request):
        return "gone" if site == "s2" and b"prepare.moments" in request else None

    run = fedgeom.run(fedgeom.Ridge(features="linear", prepare="table"), clinical(), interfere=interfere)
    assert set(run.lost) == {"s2"}
    assert run.metrics["sites"] == 3


def test_sites_without_a_column_in_common_cannot_run():
    sites = [
        fedgeom.SiteData(f"s{i}", [[1.0], [2.0], [3.0]], ["a", "b", "a"], columns=(f"c{i}",)) for i in range(3)
    ]
    with pytest.raises((TooFewSitesError, InputError, fedgeom.FedgeomError), match="no column in common"):
        fedgeom.run(fedgeom.Ridge(features="linear", prepare=["scale"]), sites)


def test_the_ledger_says_what_each_step_reveals():
    run = fedgeom.run(fedgeom.Ridge(features="linear", prepare="table"), clinical())
    told = {entry.reveals for entry in run.ledger}
    for words in ("each category occurs", "columns have a value", "bins around a quantile", "sums of each column"):
        assert any(words in line for line in told), words

"""A fitted preparation, and the way there."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fedgeom
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation import preparation
from fedgeom.federation.preparation import Fitting, Preparation, planned_sums
from fedgeom.federation.steps import Columns
from fedgeom.preparation import PCA, Impute, LogCounts, OneHot, Scale, SelectVariable, fit_plain
from tests.preparation.raw import clinical, counts, pooled


def test_blocks_and_what_is_kept_in_between_make_no_difference(monkeypatch):
    sites, steps = counts(), [LogCounts(), SelectVariable(20), Scale(), PCA(4)]
    whole = fit_plain(steps, sites)
    monkeypatch.setattr(preparation, "BLOCK_ROWS", 7)
    monkeypatch.setattr(preparation, "SMALL", 0)  # nothing is kept: every sum begins with the raw rows
    pieces = fit_plain(steps, sites)
    a, b = (pooled([made.transform(s) for s in sites]) for made in (whole, pieces))
    np.testing.assert_allclose(a, b, atol=1e-4)
    assert whole.columns == pieces.columns


def test_it_is_stored_and_read_again():
    sites = clinical()
    made = fit_plain([OneHot(), Impute(), Scale()], sites)
    arrays, facts = made.stored()
    again = Preparation.read(arrays, facts["preparation"])
    np.testing.assert_array_equal(again.transform(sites[0]).X, made.transform(sites[0]).X)
    with pytest.raises(InputError, match="cannot be read"):
        Preparation.read(arrays, {"steps": ["scale"]})


def test_a_sum_of_another_length_is_refused_and_nothing_is_finished_early():
    fitting = Fitting((Scale(),), Columns(width=2), 0, (1, 1), 3, [])
    assert fitting.next() == ("moments", 4 * 5)
    with pytest.raises(ProtocolError, match="wanted 20"):
        fitting.take(np.zeros(3, np.uint64))
    with pytest.raises(ProtocolError, match="not prepared yet"):
        fitting.finished()


def test_sums_that_are_not_needed_are_passed_over():
    steps = (LogCounts(target_sum=1.0), PCA(2))
    fitting = Fitting(steps, Columns(width=3), 0, (1, 1), 3, [])
    assert planned_sums(steps, private=False)[:2] == ["moments", "products"]
    assert fitting.planned() == 0
    rows = fedgeom.SiteData("s", np.random.default_rng(0).random((9, 3)), np.zeros(9))
    for wanted in ("moments", "products"):
        assert fitting.next()[0] == wanted
        fitting.take(fitting.summand(rows, {}).view(np.uint64))
    assert fitting.next() is None
    assert fitting.finished().columns.width == 2


def test_rows_of_all_kinds_are_taken():
    sites = counts()
    model = fedgeom.Ridge(features="linear", prepare=["log-counts", "scale"]).plain(sites).model
    wanted = model.predict(sites[0])
    names = list(sites[0].columns)
    kinds = [sites[0].table, sites[0].X, np.asarray(sites[0].X, np.float32), sp.coo_array(sites[0].X)]
    pandas, anndata = pytest.importorskip("pandas"), pytest.importorskip("anndata")
    frame = pandas.DataFrame(sites[0].X, columns=names)[names[::-1]]
    kinds += [frame, frame.assign(other="text")]
    kinds.append(anndata.AnnData(sp.csr_matrix(sites[0].X), var=pandas.DataFrame(index=names)))
    for rows in kinds:
        assert (model.predict(rows) == wanted).all(), type(rows)
    with pytest.raises(InputError, match="these columns are missing: 'g3'"):
        model.predict(frame.drop(columns="g3"))
    assert model.n_features_in_ == 60
    assert model.bare().preparation is None

"""The site's half of preparation: what it refuses."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import ProtocolError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array, decode, unpack
from fedgeom.protocols.preparation import KeepColumns, PrepareRows, SumMoments
from fedgeom.testing.rehearsal import example_sites
from tests.federation.fuzzing import record
from tests.preparation.raw import clinical

METHOD = fedgeom.Ridge(features="linear", prepare=["one-hot", {"name": "impute", "strategy": "mean"}, "scale"])


@pytest.fixture(scope="module")
def heard():
    return record(METHOD, clinical())


def first(heard, kind, at=0):
    return [one for one in heard if unpack(one.request).kind == kind][at]


def asked(exchange):
    """Return the site as it was when it was asked, and the question."""
    site = exchange.runner.restore(unpack(exchange.request).run, exchange.before)
    return site, decode(unpack(exchange.request).body, exchange.question)


def test_the_method_is_not_answered_before_rows_are_prepared(heard):
    site, _ = asked(first(heard, "prepare.rows"))
    _, question = asked(first(heard, "ridge.columns"))
    with pytest.raises(ProtocolError, match="before the rows are prepared"):
        site.answer(question)


def test_a_sum_is_not_answered_out_of_turn(heard):
    site, _ = asked(first(heard, "prepare.cells"))
    _, later = asked(first(heard, "prepare.moments"))
    with pytest.raises(ProtocolError):
        site.preparing._answer(msgspec.structs.replace(later, last=None))
    with pytest.raises(ProtocolError, match=r"not the one that was taken last|added nothing of that kind"):
        site.preparing._answer(later)


def test_a_sum_that_nobody_added_up_is_not_taken(heard):
    site, question = asked(first(heard, "prepare.moments"))
    total = question.last.total.numpy()
    total[0] += 1
    forged = msgspec.structs.replace(question.last, total=type(question.last.total).of(total))
    with pytest.raises(ProtocolError, match="its tag does not fit"):
        site.preparing._take(forged)


def test_rows_are_not_done_before_all_is_fitted(heard):
    site, question = asked(first(heard, "prepare.moments"))
    with pytest.raises(ProtocolError, match="not prepared yet"):
        site.preparing.prepare_rows(PrepareRows(last=question.last))


def test_categories_cannot_be_kept_without_their_counts(heard):
    site, _ = asked(first(heard, "prepare.keep"))
    with pytest.raises(ProtocolError, match="not counted where there are some"):
        site.preparing.keep_columns(KeepColumns())


@pytest.mark.parametrize("more", [-2, -1, 1, 32])
def test_counts_of_categories_have_the_planned_length_whatever_their_tag_says(heard, more, monkeypatch):
    site, question = asked(first(heard, "prepare.keep"))
    monkeypatch.setattr(type(site.sums), "check_result", lambda self, result, kind: None)
    total = np.resize(question.result.total.numpy(), len(question.result.total.numpy()) + more)
    other = msgspec.structs.replace(question.result, total=Array.of(total))
    with pytest.raises(ProtocolError, match=f"{512 + more} counts of categories came where 512 are planned"):
        site.preparing.keep_columns(KeepColumns(result=other))


def test_a_method_that_prepares_nothing_answers_no_question_of_it():
    engine = EmbeddedEngine(fedgeom.Moments(), example_sites())
    sites = Coordinator(engine, run=bytes(32), method="moments", roster=engine.roster)
    fedgeom.Moments().conduct(sites)
    site = engine.runners["site-1"].restore(bytes(32), engine.memories["site-1"])
    with pytest.raises(ProtocolError, match=r"nothing is prepared|agreed on yet"):
        site.preparing._answer(SumMoments())


def test_a_site_keeps_its_prepared_rows_while_it_lives(heard):
    last = heard[-1]
    site = last.runner.restore(unpack(last.request).run, last.after)
    assert site.data is site.data
    assert site.data.columns == site.preparation().columns.names
    assert not site.data.categories

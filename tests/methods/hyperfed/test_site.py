"""The site of HyperFed: it trains once a round, compares with those who train, and tells no more than agreed."""

from __future__ import annotations

import msgspec
import pytest

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Array
from fedgeom.methods.hyperfed.site import CompareUpdates, RelayUpdateMessages
from fedgeom.methods.iterative.messages import TrainMasked
from tests.methods.coordinators import lie, overhear
from tests.methods.hyperfed.making import clinics, quick

pytest.importorskip("seal", reason="seal-python is not installed (fedgeom[xclp])")
replace = msgspec.structs.replace


def reasons(kind, change, **settings):
    """Return what sites said to a question that was changed on its way."""
    return [reason for _, reason in lie(quick(**settings), clinics(), kind, change, to="clinic 0")]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda ask: replace(ask, partners=("clinic 1",)), "asks for at least"),
        (lambda ask: replace(ask, partners=("clinic 0", "clinic 1", "clinic 2")), "not other sites"),
        (lambda ask: replace(ask, partners=("clinic 1", "clinic 1", "clinic 2")), "not other sites"),
        (lambda ask: replace(ask, partners=("clinic 1", "clinic 2", "stranger")), "not other sites"),
        (lambda ask: replace(ask, agreed=bytes(32)), "other classes or another scale"),
        (lambda ask: replace(ask, given={}), "does not fit the model"),
        (lambda ask: replace(ask, round=7), "joined on n_rounds=2"),
    ],
)
def test_partners_and_models_that_were_not_agreed_on_are_refused(change, says):
    found = reasons(CompareUpdates, change)
    assert found
    assert all(reason is not None and says in reason for reason in found)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda ask: replace(ask, round=ask.round + 1), "not under way"),
        (lambda ask: replace(ask, number=3 - ask.number), "no letter from"),
        (lambda ask: replace(ask, letters={"stranger": b"x"}), "no letter from"),
        (lambda ask: replace(ask, letters=dict.fromkeys(ask.letters, b"x" * 40)), "cannot be opened"),
    ],
)
def test_letters_out_of_order_are_refused(change, says):
    found = reasons(RelayUpdateMessages, change)
    assert found
    assert all(reason is not None and says in reason for reason in found)


def test_a_sum_about_another_model_than_was_compared_is_refused():
    def other(ask):
        path, leaf = next((p, v) for p, v in ask.given.items() if isinstance(v, Array))
        return replace(ask, given=ask.given | {path: Array.of(leaf.numpy() + 1)})

    found = [reason for _, reason in lie(quick(), clinics(), TrainMasked, other)]
    assert found
    assert all(reason is not None for reason in found)


def test_weights_that_single_a_site_out_are_refused():
    def greedy(ask):
        return replace(ask, factors={name: float(name == "clinic 0") for name in ask.factors})

    found = [reason for _, reason in lie(quick(), clinics(), TrainMasked, greedy)]
    assert found
    assert all(reason is not None for reason in found)


def test_a_run_without_comparisons_answers_none():
    sites = clinics()
    heard, engine = overhear(quick(aggregation="mean", n_rounds=1), sites)
    ask = next(h.question for h in heard if isinstance(h.question, TrainMasked))
    compare = CompareUpdates(round=0, given=ask.given, agreed=ask.agreed, partners=("clinic 1", "clinic 2"))
    runner = engine.runners["clinic 0"]
    site = runner.restore(bytes(range(32)), engine.memories["clinic 0"])
    with pytest.raises(FedgeomError, match="no updates compared"):
        site.answer(compare)


@pytest.mark.parametrize("settings", [{}, {"secure": False}])
def test_sites_that_show_sums_only_refuse_both_ways_but_not_the_mean(settings):
    policy = fedgeom.Policy(secure_only=True)
    with pytest.raises(FedgeomError, match="secure_only"):
        fedgeom.run(quick(**settings), clinics(), policy=policy)
    run = fedgeom.run(quick(aggregation="mean"), clinics(), policy=policy)
    assert run.model.names == ("a", "b", "c")


def test_without_seal_nothing_is_promised_but_the_mean_runs(monkeypatch):
    monkeypatch.setattr("fedgeom.methods.hyperfed.site.find_spec", lambda name: None)
    with pytest.raises(FedgeomError, match=r"seal-python.*aggregation=\"mean\""):
        fedgeom.run(quick(), clinics())
    assert fedgeom.run(quick(aggregation="mean"), clinics()).model.names == ("a", "b", "c")


def test_a_site_trains_once_a_round(monkeypatch):
    from fedgeom.methods.iterative.learners.logistic import Logistic

    fits, fit = [], Logistic.fit
    monkeypatch.setattr(
        Logistic, "fit", lambda self, *args, **options: fits.append(1) or fit(self, *args, **options)
    )
    fedgeom.run(quick(personal="none"), clinics())
    assert len(fits) == 2 * 4

"""Sites' updates are compared in secret, weighed, and summed: as if they had been seen."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import ProtocolError
from fedgeom.methods.hyperfed.method import HyperFedLoop, _cosines
from fedgeom.methods.hyperfed.site import CompareUpdates, FirstUpdateMessages, PairShares, RelayUpdateMessages
from fedgeom.methods.iterative import Consistent
from fedgeom.methods.iterative.messages import TrainMasked, TrainOpen
from fedgeom.protocols.pairwise import MODULUS, asks_first
from tests.methods.coordinators import overhear
from tests.methods.hyperfed.making import clinics, quick

pytest.importorskip("seal", reason="seal-python is not installed (fedgeom[xclp])")


@pytest.mark.parametrize("deviations", ["unit", "raw"])
@pytest.mark.parametrize("solver", ["exact", "printed"])
def test_the_secure_run_equals_the_open_one_and_the_plain_twin(deviations, solver):
    sites, rule = clinics(), Consistent(deviations=deviations, solver=solver)
    secure = fedgeom.run(quick(aggregation=rule), sites, seed=3)
    shown = fedgeom.run(quick(aggregation=rule, secure=False), sites, seed=3)
    plain = quick(aggregation=rule).plain(sites, 3)
    for name, array in plain.model.parameters.items():
        np.testing.assert_array_equal(secure.model.parameters[name], array)
        np.testing.assert_array_equal(shown.model.parameters[name], array)


def test_the_weights_are_those_of_the_updates():
    sites = clinics()
    opened, _ = overhear(quick(n_rounds=1, secure=False), sites)
    updates = {h.name: h.answer.sent for h in opened if isinstance(h.question, TrainOpen)}
    matrix = np.array([np.concatenate([leaf.numpy().ravel() for leaf in updates[s.name].values()]) for s in sites])
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    wanted = Consistent().weigh(unit @ unit.T, None)
    heard, _ = overhear(quick(n_rounds=1), sites)
    told = next(h.question.factors for h in heard if isinstance(h.question, TrainMasked))
    np.testing.assert_allclose([told[site.name] for site in sites], wanted, atol=1e-4)
    assert 1 / sum(factor**2 for factor in told.values()) >= 3 - 1e-9


def test_what_the_coordinator_gets_of_a_pair_are_two_random_shares_of_the_cosine():
    seen = []
    for _ in range(2):
        heard, _ = overhear(quick(n_rounds=1), clinics())
        shares = {
            (h.name, other): s
            for h in heard
            if isinstance(h.answer, PairShares)
            for other, s in h.answer.shares.items()
        }
        assert len(shares) == 4 * 3
        seen.append(shares)
        letters = [
            letter
            for h in heard
            if isinstance(h.answer, FirstUpdateMessages)
            for letter in h.answer.letters.values()
        ]
        assert len(letters) == 6
        assert all(h.answer.length == 0 for h in heard if isinstance(h.answer, FirstUpdateMessages))
    assert not set(seen[0].values()) & set(seen[1].values())
    names = [site.name for site in clinics()]
    np.testing.assert_array_equal(_cosines(names, seen[0]), _cosines(names, seen[1]))


def test_raw_deviations_tell_the_lengths():
    heard, _ = overhear(quick(n_rounds=1, aggregation={"name": "consistent", "deviations": "raw"}), clinics())
    lengths = [h.answer.length for h in heard if isinstance(h.answer, FirstUpdateMessages)]
    assert len(lengths) == 4
    assert min(lengths) > 0


def test_a_policy_with_a_larger_cohort_raises_the_bound():
    sites = clinics(5)
    run = fedgeom.run(quick(n_rounds=1), sites, policy=fedgeom.Policy(min_cohort=5))
    assert run.metrics["sites mixed"] == [5.0]


@pytest.mark.parametrize("deviations", ["unit", "raw"])
def test_the_sum_mixes_at_least_as_many_sites_as_every_policy_asks_for(deviations):
    """1/Σp² ≥ min_cohort where without the policy the weights would go to fewer."""
    sites = clinics(6)
    sites[0] = fedgeom.SiteData(sites[0].name, 0.01 * sites[0].X, sites[0].y)  # it moves least, and would get most
    method = quick(
        n_rounds=1,
        scale="none",
        aggregation={"name": "consistent", "min_effective_sites": 1.0, "deviations": deviations},
    )
    free = fedgeom.run(method, sites, policy=fedgeom.Policy(min_cohort=2)).metrics["sites mixed"]
    assert min(free) < 4
    bound = fedgeom.run(method, sites, policy=fedgeom.Policy(min_cohort=4)).metrics["sites mixed"]
    assert min(bound) >= 4 - 1e-3
    assert min(bound) == pytest.approx(4, abs=1e-2)  # no more than the bound asks for


def test_sites_refuse_weights_that_mix_fewer(monkeypatch):
    """A coordinator that lies about the weights gets nothing."""

    def one_alone(self, cosines, lengths, *, mixed=1.0):
        return np.array([0.9, *[0.1 / (len(cosines) - 1)] * (len(cosines) - 1)])

    monkeypatch.setattr(Consistent, "weigh", one_alone)
    with pytest.raises(fedgeom.FedgeomError, match=r"a sum of 1\.2 sites; the policy asks for 4"):
        fedgeom.run(quick(n_rounds=1), clinics(5), policy=fedgeom.Policy(min_cohort=4))


def test_the_mean_compares_nothing():
    heard, _ = overhear(quick(aggregation="mean"), clinics())
    assert not any(isinstance(h.question, CompareUpdates | RelayUpdateMessages) for h in heard)


def test_shares_that_are_missing_or_do_not_fit_name_both_sites():
    names = ["a", "b"]
    asker, helper = ("a", "b") if asks_first("a", "b") else ("b", "a")
    with pytest.raises(ProtocolError, match="'b' and 'a'"):
        _cosines(names, {(asker, helper): 5})
    with pytest.raises(ProtocolError, match="'b' and 'a'"):
        _cosines(names, {(asker, helper): MODULUS // 2, (helper, asker): 0})
    assert _cosines(names, {(asker, helper): 7, (helper, asker): 7})[0, 1] == 0


def test_a_site_lost_while_comparing_is_left_out(monkeypatch):
    sites = clinics(5)
    whole = HyperFedLoop.compare

    def losing(self, number, group):
        found = whole(self, number, group)
        kept = (
            [at for at, name in enumerate(found.names) if name != "clinic 2"]
            if number
            else range(len(found.names))
        )
        return found._replace(
            names=tuple(found.names[at] for at in kept),
            cosines=found.cosines[np.ix_(kept, kept)],
            lengths=found.lengths[list(kept)],
        )

    monkeypatch.setattr(HyperFedLoop, "compare", losing)
    run = fedgeom.run(quick(n_rounds=3), sites)
    assert len(run.metrics["sites mixed"]) == 3
    assert np.isfinite(run.model.predict_proba(sites[0].X)).all()

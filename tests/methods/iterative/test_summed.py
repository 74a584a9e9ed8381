"""What sums of models cost in bytes and in precision."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, FedNova, FedProto, HyperFed, Scaffold
from fedgeom.errors import ContractError
from fedgeom.methods.iterative import Tree
from fedgeom.methods.iterative.summed import Summed, combined
from fedgeom.protocols.fixed_point import Packing
from tests.methods.iterative.making import unlike
from tests.methods.iterative.simulation import simulate

LIKE = Tree(model=Tree(weights=np.zeros((3, 2)), mean=np.zeros(2), bias=np.zeros(1)), steps=0.0)
FORM = Summed(LIKE, Packing(32, 64.0), ("mean",))


def tree(rng: np.random.Generator, size: float = 1.0) -> Tree:
    return Tree(LIKE.like(size * rng.normal(size=LIKE.size)))


def test_what_is_packed():
    assert FORM.packed == {"model/bias", "model/weights"}
    assert FORM.length(2) == 4 + 3 + 1 + 2 + 1  # words, wide ones, weight, figures, how many were cut off
    whole = Summed(LIKE, None, ("mean",))
    assert not whole.packed
    assert whole.length(2) == 10 + 1 + 2


def test_weights_figures_and_cuts_come_back():
    rng, total = np.random.default_rng(0), np.zeros(FORM.length(2), np.uint64)
    given, sites, rows = tree(rng), [tree(rng) for _ in range(3)], [5.0, 80.0, 15.0]
    sites[1]["model"]["bias"] = given["model"]["bias"] + 1000.0
    for site, weight in zip(sites, rows, strict=True):
        words, _ = FORM.write(site, given, weight, 100.0, np.array([0.5, 2.0]), sites=3)
        total += words
    found = FORM.read(total, given, 100.0)
    assert found.figures.tolist() == [1.5, 6.0]
    assert found.cut == 1
    wanted = np.array(rows) @ np.array([site.flat() for site in sites]) / 100
    assert found.mean.flat()[1:] == pytest.approx(wanted[1:], abs=3 * 2.0**-25)
    cut = 0.8 * Packing(32, 64.0).limit(3) + given["model"]["bias"][0]
    others = 0.05 * (sites[0]["model"]["bias"] - given["model"]["bias"])
    others = others + 0.15 * (sites[2]["model"]["bias"] - given["model"]["bias"])
    assert found.mean.flat()[0] == pytest.approx(cut + others[0], abs=1e-6)


def test_another_number_of_numbers():
    with pytest.raises(ContractError, match="3 numbers are sent; the algorithm says that there are 10"):
        FORM.write(Tree(model=np.zeros(3)), LIKE, 1.0, 1.0, np.zeros(0), sites=2)


@pytest.mark.parametrize("bits", [21, 32])
@pytest.mark.parametrize("n_sites", [3, 20, 200])
def test_the_error_against_double_precision(bits, n_sites):
    """At most K/2 digits; in the root of the mean square √(K/12) of them. 32 bits: that of single precision."""
    rng = np.random.default_rng(n_sites)
    given = Tree(model=Tree(weights=rng.normal(size=4000)))
    sent = [
        Tree(model=Tree(weights=given["model"]["weights"] + rng.normal(scale=0.05, size=4000)))
        for _ in range(n_sites)
    ]
    weights = rng.integers(1, 3000, n_sites).astype(float)
    rule = FedAvg(bits=bits)
    found = combined(rule, Summed.of(rule, given, ()), sent, weights, given)
    exact = weights @ np.array([one.flat() for one in sent]) / weights.sum()
    away, digit = np.abs(found.mean.flat() - exact), 2.0**-rule.packing.fraction_bits
    assert away.max() <= rule.packing.error(n_sites) * 1.001
    assert np.sqrt((away**2).mean()) == pytest.approx(np.sqrt(n_sites / 12) * digit, rel=0.15)
    if bits == 32:
        assert np.sqrt((away**2).mean()) < 2 * np.spacing(np.float32(1.0))


@pytest.mark.parametrize("bits", [21, 32, 64])
@pytest.mark.parametrize("algorithm", [FedAvg, Scaffold, FedNova])
@pytest.mark.parametrize("scale", ["joint", "none"])
def test_secure_open_and_plain_are_the_same(algorithm, bits, scale):
    sites = unlike(rows=9)
    rule = algorithm(n_rounds=3, epochs=1, bits=bits, scale=scale)
    secure, open_ = fedgeom.run(rule, sites), fedgeom.run(algorithm(**(vars(rule) | {"secure": False})), sites)
    twin = simulate(rule, sites).model
    assert secure.model.parameters.flat().tolist() == open_.model.parameters.flat().tolist()
    assert secure.model.parameters.flat().tolist() == twin.parameters.flat().tolist()
    fine = fedgeom.run(algorithm(**(vars(rule) | {"bits": 64})), sites).model.parameters.flat()
    assert secure.model.parameters.flat() == pytest.approx(fine, abs={21: 5e-3, 32: 3e-6, 64: 0}[bits])


@pytest.mark.parametrize(("bits", "most"), [(21, 2.7), (32, 4.0), (64, 8.0)])
def test_bytes_per_parameter(bits, most):
    rng = np.random.default_rng(0)
    sites = [fedgeom.SiteData(f"s{at}", rng.normal(size=(6, 3000)), ["a", "b"] * 3) for at in range(3)]
    run = fedgeom.run(FedAvg(n_rounds=1, epochs=1, bits=bits, scale="none"), sites)
    masked = [entry.bytes for entry in run.ledger if entry.kind == "sum.masked"]
    assert max(masked) / 3001 <= most + 0.15  # beside the numbers there are a signature and some words
    assert max(masked) / 3001 > most - 0.1


def test_a_run_says_that_numbers_were_cut_off():
    sites = unlike(rows=9)
    rule = FedAvg(n_rounds=2, epochs=2, learning_rate=1.0, max_abs_change=0.01)
    for secure in (True, False):
        run = fedgeom.run(FedAvg(**(vars(rule) | {"secure": secure})), sites)
        assert [w for w in run.warnings if "changed by more than max_abs_change = 0.01" in str(w)]
        assert set(run.metrics["numbers cut off"]) <= {"1", "2"}
        assert (np.abs(run.model.parameters.flat()) <= 0.0201).all()
    assert not [w for w in fedgeom.run(FedAvg(n_rounds=2), sites).warnings if "largest_change" in str(w)]


def test_sums_over_rows_stay_wide():
    """Prototypes are sums over rows: they would be cut off."""
    rule = FedProto(network="mlp")
    assert rule.packing is None
    assert HyperFed().packing == Packing(32, 64.0)


@pytest.mark.parametrize("settings", [{}, {"bits": 64}, {"aggregation": "median"}], ids=str)
def test_sites_that_count_nothing_have_no_say_and_where_all_do_nothing_is_divided_by_zero(settings):
    rule, given = fedgeom.FedAvg(**settings), Tree(model=Tree(w=np.array([1.0, 2.0])))
    form = Summed.of(rule, given, ())
    sent = [Tree(model=Tree(w=np.array([3.0, 4.0]))), Tree(model=Tree(w=np.array([9.0, 9.0])))]
    one = combined(rule, form, sent, np.array([1.0, 0.0]), given, 2.0)
    np.testing.assert_allclose(one.mean.flat(), [3.0, 4.0], atol=1e-5)
    assert one.weight == pytest.approx(1.0)
    none = combined(rule, form, sent, np.zeros(2), given, 2.0)
    assert none.weight == 0.0
    assert np.isfinite(none.mean.flat()).all()
    if rule.combine_rule.sums_only:
        blank, _ = form.write(sent[0], given, 0.0, 2.0, np.zeros(0), sites=2)
        read = form.read(blank + blank, given, 2.0)
        assert read.weight == 0.0
        assert np.isfinite(read.mean.flat()).all()

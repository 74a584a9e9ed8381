"""Each row against its paper: by hand on bowls, and against `twin.py` on unlike sites."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative import (
    Ditto,
    Effort,
    FedAdam,
    FedAvg,
    FedDyn,
    FedPer,
    FedProx,
    FedYogi,
    Interpolated,
    LocalOnly,
    PFedMe,
    Scaffold,
    Task,
    pooled,
    simulate,
)
from fedgeom.methods.iterative.vectors import Layout
from tests.methods.iterative import twin
from tests.methods.iterative.making import BOWLS, Bowl, bowls, unlike, whole

SITES = unlike()
CLIENTS = twin.clients_of(SITES)
ZERO = np.zeros(3)
STEPS = {"rounds": 3, "rate": 0.3, "steps": 4, "batch": None}
WORK, PLAIN = twin.Work(**STEPS), STEPS | {"scale": "none"}
NEAR = {"rel": 0, "abs": 2e-7}
"""Sums are rounded to 2⁻²⁸ at every site."""


def downhill(site):
    """Twelve full steps of the twin on one site's loss."""
    return twin.descend(twin.clients_of([site])[0].slope, ZERO, 0.3, [slice(None)] * 12)


def lowest(row, sites, **simulated):
    return float(whole(simulate(row, sites, **simulated).model)[0])


# By hand. A bowl (a, h) has the slope h(w − a); all models start at 0.


def test_fedavg_by_hand():
    # One step of 0.1: 0.1·1·10 = 1 at the first site, 0.1·2·(−5) = −1 at the second; rows count 3 : 1.
    row = FedAvg(rounds=1, rate=0.1, **BOWLS)
    assert lowest(row, bowls((10, 1), (-5, 2), copies=(3, 1))) == pytest.approx((3 * 1 - 1) / 4)
    assert (
        lowest(FedAvg(rounds=1, rate=0.1, weights="sites", **BOWLS), bowls((10, 1), (-5, 2), copies=(3, 1))) == 0
    )


def test_fedprox_by_hand():
    # Two steps for (10, 1): 0 → 1 → 1 + 0.1·(9 − μ·1), with μ = 2: 1.7.
    row = FedProx(rounds=1, rate=0.1, mu=2.0, **(BOWLS | {"epochs": 2}))
    assert lowest(row, bowls((10, 1), (10, 1))) == pytest.approx(1.7)


def test_scaffold_by_hand():
    # Round 1, one step of 0.1 at (10, 1) and (−5, 2): y = 1 and −1, so x = 0; c_k = (0 − y)/0.1 = −10 and 10; c = 0.
    # Round 2: y = −0.1·(−10 + 10 + 0) = 0 and 0: the variates hold both sites at the optimum of the mean, 0.
    sites = bowls((10, 1), (-5, 2))
    assert lowest(Scaffold(rounds=1, rate=0.1, **BOWLS), sites) == pytest.approx(0.0, abs=1e-8)
    assert lowest(Scaffold(rounds=2, rate=0.1, **BOWLS), sites) == pytest.approx(0.0, abs=1e-8)
    # (10, 1) and (2, 1), half the server rate: y = 1, 0.2; x = 0.3; c_k = −10, −2; c = −6.
    # Round 2: slopes −9.7, −1.7, corrected by c − c_k = 4, −4: both −5.7, y − x = 0.57; x = 0.3 + 0.285.
    sites = bowls((10, 1), (2, 1))
    assert lowest(Scaffold(rounds=2, rate=0.1, server_rate=0.5, **BOWLS), sites) == pytest.approx(0.585)


def test_feddyn_by_hand():
    # α = 1, bowls of h = 1: a step of 0.5 is the exact minimum of ½(θ − a)² + ½(θ − 0)²: a/2, so 5 and 1.
    # g_k = −5, −1; h = −1·(5 + 1)/2 = −3; θ = 3 + 3 = 6, the optimum. Round 2: θ_k = (a + g_k + 6)/2 … = 5.5, 3.5 …
    sites, exact = bowls((10, 1), (2, 1)), BOWLS | {"rate": 0.5}
    assert lowest(FedDyn(rounds=1, alpha=1.0, **exact), sites) == pytest.approx(6.0)
    first = (10 + -5 + 6) / 2, (2 + -1 + 6) / 2
    h = -3 - ((first[0] - 6) + (first[1] - 6)) / 2
    assert lowest(FedDyn(rounds=2, alpha=1.0, **exact), sites) == pytest.approx(sum(first) / 2 - h)


def test_fedadam_and_fedyogi_by_hand():
    # Both sites move by 1. m = 0.1; Adam: v = 0.99·τ² + 0.01; Yogi: v = τ² − 0.01·sign(τ² − 1) = τ² + 0.01.
    sites, common = bowls((10, 1), (10, 1)), {"rounds": 1, "rate": 0.1, "tau": 0.1, "server_rate": 0.5, **BOWLS}
    assert lowest(FedAdam(**common), sites) == pytest.approx(0.5 * 0.1 / (np.sqrt(0.0099 + 0.01) + 0.1))
    assert lowest(FedYogi(**common), sites) == pytest.approx(0.5 * 0.1 / (np.sqrt(0.01 + 0.01) + 0.1))


def test_ditto_by_hand():
    # w: 0 → 0.6 (mean of 1 and 0.2). v of (10, 1), λ = 2, around 0: 0.1·10 = 1; then once more around 0.6:
    # 1 + 0.1·(9 − 2·0.4) = 1.82.
    done = simulate(Ditto(rounds=1, rate=0.1, lam=2.0, **BOWLS), bowls((10, 1), (2, 1)))
    assert whole(done.model) == pytest.approx([0.6])
    assert whole(done.personal["s0"]) == pytest.approx([1.82])


def test_pfedme_by_hand():
    # λ = 1, one inner step of 0.5 finds the exact minimum of ½(θ − 10)² + ½(θ − w)²: (10 + w)/2.
    # R = 2, η = 0.5: w = 0 → θ = 5 → w = 2.5 → θ = 6.25 → w = 4.375. Second site (2, 1): 1, 0.5, 1.25, 0.875.
    row = PFedMe(
        rounds=1, lam=1.0, local_rounds=2, inner_steps=1, inner_rate=0.5, outer_rate=0.5, beta=1.0, **BOWLS
    )
    sites = bowls((10, 1), (2, 1))
    assert lowest(row, sites) == pytest.approx((4.375 + 0.875) / 2)
    half = PFedMe(
        rounds=1, lam=1.0, local_rounds=2, inner_steps=1, inner_rate=0.5, outer_rate=0.5, beta=0.5, **BOWLS
    )
    assert lowest(half, sites) == pytest.approx((4.375 + 0.875) / 4)


def test_local_only_by_hand():
    done = simulate(LocalOnly(rounds=2, rate=0.1, **BOWLS), bowls((10, 1), (2, 1)))
    assert whole(done.model) == pytest.approx([0.0])
    assert [whole(done.personal[name])[0] for name in ("s0", "s1")] == pytest.approx([1.9, 0.38])


def test_local_only_follows_the_schedule():
    row = LocalOnly(rounds=2, rate=0.1, schedule="decay", decay=0.5, **BOWLS)
    assert whole(simulate(row, bowls((10, 1), (2, 1))).personal["s0"]) == pytest.approx([1 + 0.05 * 9])


# Against the papers, on unlike sites with logistic regression: three rounds of four full steps.


def test_fedavg():
    found = simulate(FedAvg(**PLAIN), SITES).model
    assert whole(found) == pytest.approx(twin.fedavg(CLIENTS, WORK), **NEAR)
    assert found.names == ("class 0", "class 1")


def test_fedprox():
    expected = twin.fedprox(CLIENTS, WORK, mu=0.7)
    assert whole(simulate(FedProx(mu=0.7, **PLAIN), SITES).model) == pytest.approx(expected, **NEAR)


@pytest.mark.parametrize("server_rate", [1.0, 0.6])
def test_scaffold(server_rate):
    expected = twin.scaffold(CLIENTS, WORK, server_rate=server_rate)
    found = simulate(Scaffold(server_rate=server_rate, **PLAIN), SITES).model
    assert whole(found) == pytest.approx(expected, abs=1e-6)


def test_feddyn():
    expected = twin.feddyn(CLIENTS, WORK, alpha=0.4)
    assert whole(simulate(FedDyn(alpha=0.4, **PLAIN), SITES).model) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("cls", "yogi"), [(FedAdam, False), (FedYogi, True)])
def test_fedopt(cls, yogi):
    own = {"server_rate": 0.2, "beta1": 0.8, "beta2": 0.95, "tau": 0.01}
    expected = twin.fedopt(CLIENTS, WORK, yogi=yogi, **own)
    assert whole(simulate(cls(**own, **PLAIN), SITES).model) == pytest.approx(expected, abs=1e-6)


def test_ditto():
    expected, personal = twin.ditto(CLIENTS, WORK, lam=0.5)
    done = simulate(Ditto(lam=0.5, **PLAIN), SITES)
    assert whole(done.model) == pytest.approx(expected, **NEAR)
    for site, vector in zip(SITES, personal, strict=True):
        assert whole(done.personal[site.name]) == pytest.approx(vector, **NEAR)


def test_pfedme():
    own = {"local_rounds": 3, "inner_steps": 4, "lam": 2.0, "outer_rate": 0.2, "inner_rate": 0.1, "beta": 0.7}
    expected, personal = twin.pfedme(CLIENTS, WORK, **own)
    done = simulate(PFedMe(**own, **PLAIN), SITES)
    assert whole(done.model) == pytest.approx(expected, **NEAR)
    for site, vector in zip(SITES, personal, strict=True):
        assert whole(done.personal[site.name]) == pytest.approx(vector, **NEAR)


def test_pfedme_draws_batches_of_the_given_size_with_the_penalty_of_the_whole_site():
    # All rows alike, so whichever are drawn the slope is that of all: but only if the penalty is that of all, too.
    sites = [type(site)(site.name, np.tile(site.X[:1], (8, 1)), np.tile(site.y[:1], 8)) for site in SITES[:2]]
    sites[1] = type(sites[1])("s1", sites[1].X, np.full(8, "class 1"))
    own = {"local_rounds": 3, "inner_steps": 4, "lam": 2.0, "outer_rate": 0.2, "inner_rate": 0.1}
    full, small = (
        simulate(PFedMe(**own, **(PLAIN | {"batch": batch, "C": 0.05})), sites).model for batch in (None, 2)
    )
    assert whole(small) == pytest.approx(whole(full), abs=1e-12)


def test_fedper():
    head = np.array([True, False, False])  # the intercept
    body, personal = twin.fedper(CLIENTS, WORK, head)
    done = simulate(FedPer(**PLAIN), SITES)
    assert done.model.parameters["weights"].ravel() == pytest.approx(body, **NEAR)
    assert done.model.parameters["intercept"] == pytest.approx([0.0])
    for site, vector in zip(SITES, personal, strict=True):
        assert whole(done.personal[site.name]) == pytest.approx(vector, **NEAR)


def bowl_task(*rows, rate=0.1, batch=None):
    """One round at one site with these rows (a, h)."""
    table, learner = np.array(rows, float), Bowl()
    layout = Layout.of({"w": np.zeros(1)})
    effort = Effort(steps=2, batch=batch, rate=rate)
    return Task(
        learner, layout, table, np.zeros(len(table), np.int64), effort, np.random.default_rng(0), 2, np.zeros(1)
    )


def test_scaffolds_variate_of_a_site_that_missed_rounds():
    """Option II as it stands: with all sites in all rounds a variate without − c would go unnoticed."""
    own = {"variate": np.array([3.0])}
    sent = Scaffold().local(bowl_task((10, 1)), {"model": np.array([1.0]), "variate": np.array([2.0])}, own)
    y = 1.0
    for _ in range(2):
        y -= 0.1 * ((y - 10) - 3 + 2)
    assert own["variate"] == pytest.approx([3 - 2 + (1 - y) / (2 * 0.1)])
    assert sent["model"] == pytest.approx([y - 1])
    assert sent["variate"] == pytest.approx(own["variate"] - 3)


def test_pfedme_looks_at_one_minibatch_in_each_local_round():
    row = PFedMe(lam=1.0, local_rounds=1, inner_steps=3, inner_rate=0.5, outer_rate=0.5, batch=1)
    sent = row.local(bowl_task((10, 1), (-6, 1), batch=1), {"model": np.zeros(1)}, {})["model"][0]
    assert sent in (
        pytest.approx(10 / 4),
        pytest.approx(-6 / 4),
    )  # half way to (a + 0)/2; the mean of both would be 0.5


# A share of the sites: the papers' |S|/N.


def test_scaffold_moves_the_variate_by_the_share_of_sites():
    row = Scaffold(server_rate=0.5)
    state = {"model": np.array([1.0]), "variate": np.array([2.0])}
    new = row.combine(state, {"model": np.array([0.4]), "variate": np.array([10.0])}, 0.2)
    assert (new["model"][0], new["variate"][0]) == pytest.approx((1.2, 4.0))


def test_feddyn_pulls_by_the_share_of_sites():
    state = {"model": np.array([1.0]), "pull": np.array([0.5])}
    new = FedDyn(alpha=0.1).combine(state, {"model": np.array([3.0])}, 0.25)
    assert new["pull"][0] == pytest.approx(0.5 - 0.1 * 0.25 * 2)
    assert new["model"][0] == pytest.approx(3.0 - new["pull"][0] / 0.1)


# Laws.


def same(one, other, **near):
    assert whole(one) == pytest.approx(whole(other), **(near or {"abs": 1e-12}))


def test_fedprox_without_a_pull_is_fedavg():
    same(simulate(FedProx(mu=0.0), SITES).model, simulate(FedAvg(), SITES).model)


def test_fedprox_with_a_great_pull_stays():
    row = FedProx(mu=1e6, solver="exact", rounds=1)
    assert whole(simulate(row, SITES).model) == pytest.approx(ZERO, abs=1e-5)


def test_scaffold_of_one_site_is_plain_descent():
    one = SITES[:1]
    expected = downhill(one[0])
    assert whole(simulate(Scaffold(**PLAIN), one).model) == pytest.approx(expected, abs=1e-6)


def test_fixed_points():
    """Unlike bowls: FedAvg ends at the mean of the sites' optima, SCAFFOLD and FedDyn at the joint optimum."""
    sites = bowls((0, 1), (6, 5))
    optimum, middle = 6 * 5 / 6, 3.0
    much = BOWLS | {"steps": 40, "rate": 0.15}
    assert lowest(FedAvg(rounds=30, **much), sites) == pytest.approx(middle, abs=0.02)
    assert lowest(Scaffold(rounds=100, **(much | {"steps": 5})), sites) == pytest.approx(optimum, abs=1e-4)
    assert lowest(FedDyn(rounds=100, alpha=1.0, **much), sites) == pytest.approx(optimum, abs=1e-4)


def test_feddyn_with_logistic_regression_ends_at_the_joint_optimum_and_fedavg_does_not():
    common = {"scale": "none", "solver": "exact", "weights": "sites"}

    def steepness(row):
        w = whole(simulate(row, SITES).model)
        return float(np.linalg.norm(sum(client.slope(w) for client in CLIENTS) / len(CLIENTS)))

    assert steepness(FedDyn(rounds=60, alpha=0.1, **common)) < 1e-3
    assert steepness(FedAvg(rounds=20, **common)) > 1e-2


def test_ditto_from_local_to_joint():
    exact = {"solver": "exact", "rounds": 2, "scale": "none"}
    alone = simulate(LocalOnly(**exact), SITES)
    free, bound = simulate(Ditto(lam=0.0, **exact), SITES), simulate(Ditto(lam=1e7, **exact), SITES)
    for site in SITES:
        same(free.personal[site.name], alone.personal[site.name], abs=1e-3)
        same(bound.personal[site.name], bound.model, abs=1e-4)


def test_ditto_without_a_pull_by_steps_is_local_training_of_one_more_round():
    free = simulate(Ditto(lam=0.0, **PLAIN), SITES)
    alone = simulate(LocalOnly(**(PLAIN | {"rounds": 4})), SITES)
    for site in SITES:
        same(free.personal[site.name], alone.personal[site.name])


def test_pfedme_with_a_great_lambda_personalises_little():
    done = simulate(PFedMe(rounds=2, lam=1e3, outer_rate=1e-3, inner_rate=5e-4), SITES)
    for site in SITES:
        same(done.personal[site.name], done.model, abs=2e-3)


def test_interpolation_from_joint_to_local():
    joint, tuned = simulate(FedAvg(), SITES), simulate(FedAvg(personal="finetuned"), SITES)
    none, half, full = (simulate(Interpolated(mix=mix), SITES) for mix in (0.0, 0.5, 1.0))
    for site in SITES:
        same(none.personal[site.name], joint.model)
        same(full.personal[site.name], tuned.personal[site.name])
        middle = (whole(joint.model) + whole(tuned.personal[site.name])) / 2
        assert whole(half.personal[site.name]) == pytest.approx(middle)
    same(none.model, joint.model)


@pytest.mark.parametrize("cls", [FedAvg, FedProx, Scaffold])
def test_sites_alike_train_as_one_place_does(cls):
    """The same rows at all sites, full batches: averaging changes nothing (FedProx: with a pull of 0)."""
    first = SITES[0]
    alike = [type(first)(name, first.X, first.y) for name in ("a", "b", "c")]
    options = PLAIN | ({"mu": 0.0} if cls is FedProx else {})
    one = simulate(FedAvg(**PLAIN), [first]).model
    same(simulate(cls(**options), alike).model, one, abs=1e-6)


def test_pooled_is_descent_on_all_rows():
    everyone = [type(SITES[0])("all", np.vstack([s.X for s in SITES]), np.concatenate([s.y for s in SITES]))]
    expected = downhill(everyone[0])
    for row in (
        FedAvg(**PLAIN),
        Ditto(**PLAIN),
        FedPer(**PLAIN),
        LocalOnly(**PLAIN),
        FedAvg(aggregation="krum", **PLAIN),
    ):
        assert whole(pooled(row, SITES)) == pytest.approx(expected, **NEAR)


def test_the_twin_refuses_what_it_does_not_do():
    for row in (FedAvg(share=0.5), FedAvg(validation=0.2)):
        with pytest.raises(InputError, match="the plain twin has no sampling"):
            simulate(row, SITES)


def test_the_same_seed_gives_the_same_model():
    first, again, other = (whole(simulate(FedAvg(batch=4), SITES, seed=seed).model) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()

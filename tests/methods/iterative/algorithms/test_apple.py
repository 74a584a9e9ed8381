"""APPLE: what it shows is said and refused by strict sites; settings that it cannot follow are refused."""

from __future__ import annotations

from typing import Any

import pytest

import fedgeom
from fedgeom import Apple, InputError
from fedgeom.errors import FedgeomError
from fedgeom.protocols.plan import leaves
from tests.methods.iterative.making import BOWLS, bowls, own, unlike, whole

SITES = unlike(n_sites=4)
SHORT: dict[str, Any] = {"n_rounds": 2, "epochs": 1, "batch_size": 5}


def test_by_hand() -> None:
    # Cores 0 and 0, shares 1/2 each: F = ½(w − 10)², so ∇F = −10; the own core moves by 0.1·½·10 = 0.5, the shares by
    # 0.2·⟨10, 0⟩ = 0. Second round: cores 0.5 and 0.1, mixture 0.3, ∇F = −9.7: the own core by 0.1·½·9.7 = 0.485, the
    # shares by 0.2·9.7·(0.5, 0.1) = (0.97, 0.194).
    settings = {"share_learning_rate": 0.2, "mu": 0.0, "weights": "sites"}
    done = Apple(n_rounds=2, learning_rate=0.1, **settings, **BOWLS).plain(bowls((10, 1), (2, 1)))
    # The other site: ∇F = 0.3 − 2 = −1.7, its core 0.1 + 0.1·½·1.7 = 0.185.
    assert whole(done.model) == pytest.approx([(0.985 + 0.185) / 2])
    assert own(done, "s0") == pytest.approx([(0.5 + 0.97) * 0.985 + (0.5 + 0.194) * 0.185])


def test_shares_are_held_in_the_first_rounds_alone() -> None:
    firm = Apple(n_rounds=10, mu=2.0, settling=0.5)
    assert [firm.held(round) for round in (0, 5, 9)] == [2.0, 0.0, 0.0]
    assert firm.held(1) > firm.held(2) > firm.held(4) > 0


def test_that_all_see_all_models_is_in_the_terms_and_strict_sites_refuse() -> None:
    assert "every other site" in Apple().shows_one_site()
    with pytest.raises(FedgeomError, match="every other site"):
        fedgeom.run(Apple(**SHORT), SITES, policy=fedgeom.Policy(secure_only=True))


def test_the_list_of_what_would_leave_says_who_sees_it() -> None:
    shown = [line for line in leaves(Apple(**SHORT)) if "trained parameters" in line]
    assert shown
    assert all("every other site" in one for one in shown)


def test_sites_are_given_every_sites_model() -> None:
    run = fedgeom.run(Apple(**SHORT), SITES)
    asked = [entry.bytes for entry in run.ledger if entry.kind == "train.among-all" and entry.site == "s0"]
    plain = fedgeom.run(fedgeom.FedAvg(**SHORT, secure=False), SITES)
    usual = [entry.bytes for entry in plain.ledger if entry.kind == "train.open" and entry.site == "s0"]
    model = 8 * whole(run.model).size
    assert all(apple > fedavg + len(SITES) * model for apple, fedavg in zip(asked, usual, strict=True))


@pytest.mark.parametrize(
    "settings",
    [
        {"secure": True},
        {"aggregation": "median"},
        {"network": "mlp", "loss": "balanced"},
        {"network": "mlp", "optimizer": {"name": "sgd", "momentum": 0.9}},
    ],
)
def test_what_it_cannot_do_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="it shows all sites' models to all of them"):
        Apple(**settings)

"""A site's policy against settings: every reason is said, and names the key."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom.errors import ProtocolError
from fedgeom.federation.method import METHODS
from fedgeom.federation.policy import Policy, StrictPolicy, check_settings, reasons_against
from fedgeom.federation.settings import Settings


def test_a_simulations_policy_refuses_nothing() -> None:
    for name, method in METHODS.items():
        if method.__module__.startswith("fedgeom."):
            assert reasons_against(Policy(), method()) == [], name
    wild = fedgeom.FedAvg(secure=False, batch_size=1, steps=1, n_rounds=500)
    assert reasons_against(Policy(), wild) == []
    check_settings(Policy(), wild, site="ulm")


def test_every_reason_is_said_at_once() -> None:
    wild = fedgeom.FedAvg(secure=False, batch_size=1, steps=1, n_rounds=500)
    said = reasons_against(StrictPolicy(), wild)
    assert [why.split(",")[0] for why in said] == ["secure_only = true", "max_rounds = 200", "min_batch_size = 8"]
    with pytest.raises(
        ProtocolError, match=r"the policy of 'ulm' does not allow.*secure_only.*max_rounds.*min_batch"
    ):
        check_settings(StrictPolicy(), wild, site="ulm")


def test_settings_say_what_they_show_of_one_site() -> None:
    assert Settings().shows_one_site() == ""
    shown = {
        "trained parameters": fedgeom.FedAvg(secure=False),
        "parameters and number of rows": fedgeom.FedAvg(aggregation="median"),
        "descriptor": fedgeom.PTopoFL(epsilon=1.0),
        "parameters and number of rows and a descriptor": fedgeom.PTopoFL(secure=False),
        "distances between rows": fedgeom.XCLP(),
    }
    for words, method in shown.items():
        assert words in method.shows_one_site()
    quiet = (
        fedgeom.FedAvg(), fedgeom.Hulls(), fedgeom.Moments(), fedgeom.Shrunk(), fedgeom.XCLP(graph="anchors"),
        fedgeom.PTopoFL(cluster_by="none", trust="none"),
    )  # fmt: skip
    assert {method.shows_one_site() for method in quiet} == {""}


def test_a_batch_is_looked_at_where_steps_are_taken() -> None:
    assert (
        fedgeom.FedAvg(batch_size=None).rows_per_step is None
    )  # all rows: whether these are enough is the data's affair
    assert fedgeom.FedAvg(batch_size=2, solver="exact").rows_per_step is None
    assert fedgeom.FedAvg(batch_size=2).rows_per_step == 2
    assert reasons_against(Policy(min_batch_size=2), fedgeom.FedAvg(batch_size=2)) == []


def test_features_are_bounded_by_what_the_terms_allow() -> None:
    assert Settings().most_features == 0
    (why,) = reasons_against(Policy(max_features=4000), fedgeom.Ridge(features="linear"))
    assert why == "max_features = 4000, but there may be 8192"
    assert reasons_against(StrictPolicy(), fedgeom.Ridge(features="linear")) == []


def private(**settings: object) -> fedgeom.Moments:
    return fedgeom.Moments(classes=("a", "b"), privacy=fedgeom.DP(clip=1, **{"epsilon": 1, **settings}))


def test_a_policy_may_require_privacy_and_cap_one_run() -> None:
    (why,) = reasons_against(Policy(require_privacy=True), fedgeom.Moments())
    assert why == "require_privacy = true, but these settings have no privacy"
    assert reasons_against(Policy(require_privacy=True, max_epsilon=1.0, colluders=1), private()) == []
    (why,) = reasons_against(Policy(max_epsilon=0.5), private())
    assert why == "max_epsilon = 0.5, but this run alone spends 1 at delta = 1e-05"
    (why,) = reasons_against(Policy(max_epsilon=1.0, budget_delta=1e-7), private())
    assert "this run alone spends 1." in why
    (why,) = reasons_against(StrictPolicy(), private(colluders=0))
    assert why == "colluders = 1, but privacy allows for 0"
    assert reasons_against(StrictPolicy(), private()) == []

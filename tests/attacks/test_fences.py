"""The attacks are real: with the fence that stops it taken away, each of these succeeds.

So no attack fails for a wrong reason, such as a mistake in the attack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedgeom.errors import ProtocolError
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.methods.hulls import site
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.setup import Agreement, SiteGroup
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.protocols import site as summing
from fedgeom.protocols.join import site as join_site
from fedgeom.protocols.join.site import JoinPart
from fedgeom.protocols.model_delivery import DeliveredModel, ModelTaken
from fedgeom.protocols.secure_sum import rules
from fedgeom.protocols.secure_sum import site as secure_sum
from fedgeom.protocols.secure_sum.rules import CohortRules
from fedgeom.protocols.secure_sum.site import SumPart
from tests.attacks import cells
from tests.attacks.everything import ATTACKS, installed
from tests.attacks.playing import PERMISSIVE

Patch = pytest.MonkeyPatch
BY_NAME = {attack.name: attack for attack in ATTACKS}


def nothing(*args: Any, **options: Any) -> None:
    """Check nothing."""


def any_result(patch: Patch) -> None:
    """Take every sum that comes for the one that was added up."""
    patch.setattr(SumPart, "check_result", nothing)


def any_model(patch: Patch) -> None:
    """Take a model on the coordinator's word."""

    def take(self: Any, ask: Any) -> ModelTaken:
        self.keep(ask.model)
        return ModelTaken()

    patch.setattr(DeliveredModel, "take", take)


def agreed_on_nothing(patch: Patch) -> None:
    """Let sites be told different scales in one sum."""
    any_result(patch)
    patch.setattr(Agreement, "check_agreed", nothing)
    patch.setattr(TrainMasked, "per_site_fields", {"agreed": bytes(32)})


def any_weights(patch: Patch) -> None:
    """Let the coordinator weigh sites as it likes."""
    patch.setattr(CohortRules, "check_mixture", nothing)
    patch.setattr(SiteGroup, "settle", lambda self, rule, ask, me, least: ())


def no_graph(patch: Patch) -> None:
    """Look at nobody's neighbours."""
    patch.setattr(rules, "smallest_part", lambda names, seed, living, part: len(living))
    patch.setattr(TrainingSite, "expected_participants", lambda self, question: None)


def any_signature(patch: Patch) -> None:
    """Take every signature for right."""
    patch.setattr(join_site, "verify", nothing)
    patch.setattr(secure_sum, "verify_each", nothing)


def row_sums_like_others(patch: Patch) -> None:
    """Unmask row sums as if they were sums."""
    patch.setattr(SumPart, "_is_row_sum", lambda self, number: False)
    patch.setattr(SumPart, "_check_masked", nothing)
    patch.setattr(JoinPart, "check_many_enough", nothing)
    patch.setattr(CohortRules, "check_living", nothing)


def zooms(patch: Patch) -> None:
    """Let joint maps be as they like, and all rows be corners."""
    patch.setattr(site, "LONGEST", 1e9)
    patch.setattr(site.JointMap, "_check_map", nothing)


def any_terms(patch: Patch) -> None:
    """Hold the coordinator to nothing that was agreed on."""
    patch.setattr(JoinPart, "keep_to_terms", nothing)


def tries_on_own_rows(patch: Patch) -> None:
    """Try a model on the site's own rows, as 0.1 did."""
    any_model(patch)
    honest: Callable[..., Any] = DeliveredModel.keep

    def keep(self: Any, data: bytes) -> Any:
        model = self.read(data)
        with np.errstate(all="ignore"):
            if not np.isfinite(model.decision_function(self.site.data.X)).all():
                raise ProtocolError("scores overflow")
        return honest(self, data)

    patch.setattr(DeliveredModel, "keep", keep)
    answers_again(patch)


def answers_again(patch: Patch) -> None:
    """Look at every question of a kind, not at the first alone."""
    patch.setattr(summing.SummingSite, "_take_once", nothing, raising=False)


def scales_again(patch: Patch) -> None:
    """Take every scale that comes, as often as it comes."""
    answers_again(patch)
    any_result(patch)
    honest: Callable[..., Any] = Agreement.begin

    def begin(self: Any, ask: Any) -> Any:
        self.memory.told = b""
        return honest(self, ask)

    patch.setattr(Agreement, "begin", begin)


FENCES: dict[str, tuple[Callable[[Patch], None], Policy]] = {
    "scale as an oracle": (scales_again, PERMISSIVE),
    "cells of one row": (any_result, PERMISSIVE),
    "anchors of the attacker's choice": (any_result, PERMISSIVE),
    "steep directions": (any_result, StrictPolicy()),
    "a false sum": (any_result, PERMISSIVE),
    "a flipped top bit": (any_result, PERMISSIVE),
    "a false model": (any_model, PERMISSIVE),
    "model that overflows": (tries_on_own_rows, PERMISSIVE),
    "a scale for each site": (agreed_on_nothing, PERMISSIVE),
    "weights of one site": (any_weights, PERMISSIVE),
    "weights of a few, and losses": (any_weights, PERMISSIVE),
    "a victim cut off from its neighbours": (no_graph, PERMISSIVE),
    "a sum that the victim alone is told of": (any_signature, PERMISSIVE),
    "exchanged keys": (any_signature, PERMISSIVE),
    "witnesses of a row sum": (row_sums_like_others, PERMISSIVE),
    "a zoom to the rim": (zooms, PERMISSIVE),
    "a map of the attacker's choice": (zooms, StrictPolicy()),
    "a cohort that is too small": (nothing, Policy(min_cohort=2)),
    "a finer grid than agreed": (any_terms, PERMISSIVE),
}
"""What is taken away, and the policy that is left."""

LOOSE = (
    "open training, a row a step",
    "descriptors of one site",
    "distances between rows",
    "steps on one row",
    "hundreds of rounds",
    "a class that one site has",
    "a class that the terms name",
    "nearly the same sum over one site fewer",
    "a loss that is pretended",
    "losses that add up",
    "unions of names, compared",
    "classes so small that the hull is the data",
)
"""Attacks that a strict policy alone stops: with the policy of simulations they succeed."""


@pytest.mark.parametrize("name", FENCES)
def test_without_its_fence_the_attack_succeeds(name: str, monkeypatch: Patch) -> None:
    fence, policy = FENCES[name]
    attack = BY_NAME[name]
    fence(monkeypatch)
    found = attack.play(attack.methods[0], policy, True)
    assert found.succeeds, found.now


@pytest.mark.parametrize("name", LOOSE)
def test_without_a_strict_policy_the_attack_succeeds(name: str) -> None:
    attack = BY_NAME[name]
    assert attack.policy == "strict"
    for method in attack.methods:
        if installed(method):
            found = attack.play(method, PERMISSIVE, True)
            assert found.succeeds, (method, found.now)
            assert not attack.play(method, StrictPolicy(), True).succeeds
            break


@pytest.mark.parametrize("name", cells.READ)
def test_without_floors_rows_are_read_from_sums(name: str) -> None:
    for method in BY_NAME[name].methods:
        assert BY_NAME[name].play(method, PERMISSIVE, True).succeeds

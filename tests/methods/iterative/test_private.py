"""Training with differential privacy: bounds whatever the model is, what the mean is made of, whole runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, FedAdam, FedAvg, SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.methods.iterative import private
from fedgeom.methods.iterative.learners.logistic import Logistic
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.tree import Tree
from fedgeom.privacy.bounded_sums import FINE_ONE
from fedgeom.protocols.evaluation import SumEvaluation
from fedgeom.protocols.secure_sum.messages import MaskedVector

pytestmark = pytest.mark.usefixtures("fixed_noise")

CLASSES = ("a", "b", "c")


def table(rows: int, name: str, classes: int = 3) -> SiteData:
    rng = np.random.default_rng([0, *name.encode()])
    y = rng.integers(0, classes, rows)
    return SiteData(name, rng.normal(size=(rows, 4)) * 0.3 + np.eye(4)[y], np.array(CLASSES)[y])


def per_row(method: type[FedAvg] = FedAvg, **settings: Any) -> FedAvg:
    usual: dict[str, Any] = {
        "n_rounds": 12,
        "steps": 1,
        "batch_size": None,
        "learning_rate": 4.0,
        "C": 100.0,
        "scale": "none",
    }
    usual |= {"classes": CLASSES, "min_sites": 3, "privacy": DP(epsilon=2, delta=1e-5, clip=1.0)}
    return method(**usual | settings)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
def test_no_row_moves_the_sum_by_more_than_is_reckoned_with_whatever_the_model_is(
    classes: int, size: float
) -> None:
    rng, learner = np.random.default_rng(0), Logistic()
    model = learner.start(5, classes, rng).map(lambda leaf: size * rng.normal(size=np.shape(leaf)))
    X, y = 10 * rng.normal(size=(30, 5)), rng.integers(0, classes, 30)
    whole = learner.bounded_gradient(model, X, y, 0.7)
    bounds = private.bounds(per_row(), DP(epsilon=1, clip=0.7), len(whole))
    for at in range(30):
        kept = np.arange(30) != at
        moved = (whole - learner.bounded_gradient(model, X[kept], y[kept], 0.7)).astype(np.float64)
        assert np.linalg.norm(moved) <= FINE_ONE
        row = np.concatenate([[private._COUNT * FINE_ONE], moved * private._GRADIENT])
        assert np.linalg.norm(row) <= bounds["sensitivity"]


def test_short_gradients_are_summed_as_they_are() -> None:
    rng, learner = np.random.default_rng(0), Logistic(C=3.0)
    model = learner.start(4, 3, rng).map(lambda leaf: rng.normal(size=np.shape(leaf)))
    X, y = rng.normal(size=(200, 4)), rng.integers(0, 3, 200)
    found = learner.bounded_gradient(model, X, y, 50.0) * (50.0 / FINE_ONE / 200)
    wanted = learner.gradient(model, X, y).flat()
    assert np.allclose(found + learner.penalty_gradient(model, 200), wanted, atol=0.01)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("huge", [1e160, 1e200, 1e308])
@pytest.mark.parametrize("weight", [0.0, 1.0, -1e250, np.nan, np.inf])
def test_one_row_moves_gradients_within_the_bound_whatever_it_and_the_model_are(
    classes: int, huge: float, weight: float
) -> None:
    rng, learner = np.random.default_rng(0), Logistic()
    model = learner.start(3, classes, rng).map(lambda leaf: np.full(np.shape(leaf), weight))
    X, y = rng.normal(size=(50, 3)), rng.integers(0, classes, 50)
    without = learner.bounded_gradient(model, X, y, 2.0)
    for row in ([huge, -huge, 1.0], [huge, 0.0, 0.0]):
        moved = learner.bounded_gradient(model, np.vstack([X, [row]]), np.append(y, 1), 2.0) - without
        assert sum(int(one) ** 2 for one in moved.tolist()) <= FINE_ONE**2


def test_a_sites_change_is_bounded_whatever_it_is() -> None:
    given = Tree(model=Tree(w=np.zeros(50)))
    for change in (np.full(50, 1e9), np.full(50, np.nan), np.linspace(-1, 1, 50), np.full(50, np.inf)):
        whole = private.change_summand(Tree(model=Tree(w=change)), given, 2.0, changes=True).whole()
        assert np.linalg.norm(whole.astype(np.float64)) <= FINE_ONE
    small = Tree(model=Tree(w=np.linspace(0, 0.1, 50)))
    whole = private.change_summand(small, given, 2.0, changes=True).whole()
    assert np.allclose(whole * 2.0 / FINE_ONE, np.linspace(0, 0.1, 50), atol=1e-7)


@pytest.mark.parametrize("settings", [{}, {"method": FedAdam, "server_learning_rate": 0.5, "learning_rate": 1.0}])
def test_rows_are_learnt_from_and_the_test_is_too(settings: dict[str, Any]) -> None:
    sites, test = [table(500, name) for name in "nsw"], table(1000, "t")
    run = fedgeom.run(per_row(**settings, holdout=0.2), sites, seed=0)
    assert (run.model.predict(test.X) == test.y).mean() > 0.9
    assert run.evaluation["own"].accuracy.value > 0.85
    sums = {entry.reveals for entry in run.ledger if entry.kind == MaskedVector.kind}
    assert sums == {TrainMasked.answer_reveals, SumEvaluation.answer_reveals}
    assert not {"train.update", "names.sealed", "names.vocabulary"} & {entry.kind for entry in run.ledger}


def test_two_classes_have_one_column() -> None:
    sites = [table(500, name, 2) for name in "nsw"]
    run = fedgeom.run(per_row(classes=("a", "b")), sites, seed=0)
    test = table(500, "t", 2)
    assert (run.model.predict(test.X) == test.y).mean() > 0.9


def test_rounds_share_what_the_run_may_cost() -> None:
    few = private.bounds(per_row(n_rounds=5), DP(epsilon=1, clip=1), 10)
    many = private.bounds(per_row(n_rounds=20), DP(epsilon=1, clip=1), 10)
    assert (few["releases"], many["releases"]) == (5, 20)
    assert private.bounds(per_row(), DP(epsilon=1, clip=1, unit="site"), 10)["sensitivity"] == 2 * FINE_ONE


def test_per_site_noise_is_larger_and_with_hardly_any_it_is_fedavg() -> None:
    sites = [table(100, f"s{at:02d}") for at in range(30)]
    usual: dict[str, Any] = {
        "n_rounds": 3,
        "scale": "none",
        "weights": "sites",
        "classes": CLASSES,
        "min_sites": 30,
    }
    dp = DP(
        epsilon=36, delta=1e-5, clip=2.0, unit="site", colluders=0
    )  # noise of about 0.07, changes below the clip
    run = fedgeom.run(FedAvg(**usual, privacy=dp), sites, seed=0)
    plain = fedgeom.run(FedAvg(**usual), sites, seed=0)
    assert np.allclose(run.model.parameters.flat(), plain.model.parameters.flat(), atol=1.0)
    test = table(500, "t")
    assert (run.model.predict(test.X) == plain.model.predict(test.X)).mean() > 0.9


def test_a_coordinator_cannot_make_sites_count_unlike() -> None:
    from fedgeom.errors import TooFewSitesError
    from fedgeom.methods.iterative.training import Group, TrainingLoop

    class Uneven(TrainingLoop):
        def groups(self, number: int, state: Any, chosen: tuple[str, ...]) -> list[Group]:
            return [Group(chosen, state.select(self.rule.gives), dict.fromkeys(chosen[1:], 0.9))]

    class Lying(FedAvg):
        conversation = Uneven

    sites = [table(60, name) for name in "nsw"]
    honest = per_row()
    lying = Lying(**{name: getattr(honest, name) for name in honest.terms()})
    with pytest.raises(TooFewSitesError, match="have all sites count by their rows alone"):
        fedgeom.run(lying, sites, seed=0)


def test_the_plain_twin_says_that_it_has_no_noise() -> None:
    with pytest.raises(InputError, match="the plain run adds no noise"):
        per_row().plain([table(30, name) for name in "nsw"])


def test_a_site_that_adds_more_than_the_bound_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = private.change_summand

    def lie(sent: Any, given: Any, clip: float, *, changes: bool) -> Any:
        return honest(sent, given, clip, changes=changes).whole() * 10**6

    settings: dict[str, Any] = {"classes": ("a", "b"), "weights": "sites", "scale": "none", "n_rounds": 2}
    method = FedAvg(**settings, min_sites=3, privacy=DP(epsilon=1, clip=1.0, unit="site"))
    sites = [table(50, name, 2) for name in "nsw"]
    fedgeom.run(method, sites, seed=0)
    monkeypatch.setattr(private, "change_summand", lie)
    with pytest.raises(
        ProtocolError, match=r"no longer than clip = 1, and noise, add up to .* at most\. A site added"
    ):
        fedgeom.run(method, sites, seed=0)

"""Fishing: models so steep, or anchors so near, that a sum over all rows is one row."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.setup import agree
from fedgeom.methods.iterative.training import TrainingLoop
from fedgeom.methods.iterative.tree import Tree, to_wire
from fedgeom.methods.shrunk.core import Terms, terms_length
from fedgeom.methods.shrunk.site import SumTerms
from fedgeom.methods.xclp.anchors import AnchorCoordinator, CountCells, SumAnchorCells, SumCodes, SumUnitRows
from fedgeom.protocols.names import agree_on_names
from tests.attacks.playing import Attack, Floats, Learnt, Liar, forged, patients, rounds_of, rows_read

STEEP = 1e4


def _pooled(liar: Liar) -> Floats:
    return np.vstack([site.X for site in liar.data.values()])


def steep_model(method: str, policy: Policy, quick: bool) -> Learnt:
    """Give everybody a model that is a wall, and move the wall until one row lies behind it.

    Far from a steep logistic model a row's gradient is 0 or its own coordinates. The gradient in the intercept counts
    the rows behind the wall; with one there, the gradient in the weights is that row.
    """
    rounds = 60 if quick else 200
    kind = {"fedavg": fedgeom.FedAvg, "fedprox": fedgeom.FedProx}[method]
    way = kind(
        n_rounds=rounds,
        steps=1,
        batch_size=None,
        learning_rate=1.0,
        classes=("no", "yes"),
        weights="rows",
        bits=64,
    )
    liar = Liar(way, patients(4), policy)
    talk = TrainingLoop(way, liar.talk)
    try:
        talk.agree()
        guesses = _fish(talk, liar, rounds)
    except FedgeomError as error:
        return liar.refusal(error)
    X = _pooled(liar)
    read = rows_read(guesses, X, tolerance=0.01)
    return Learnt(f"{read} of {len(X)} rows in {rounds} rounds", read > 0)


def _fish(talk: Any, liar: Liar, rounds: int) -> list[Floats]:
    names, at = talk.cohort.names, 0
    rng = np.random.default_rng(0)

    def behind(direction: Floats, wall: float) -> Floats:
        """Return Σ residual·(1, row) over all rows of all sites."""
        nonlocal at
        w, b = STEEP * direction, -STEEP * wall
        given = Tree(model=Tree(intercept=np.array([b]), weights=w[:, None]))
        question = TrainMasked(
            round=at, given=to_wire(given), factors=dict.fromkeys(names, 1.0), agreed=talk.agreed.hash
        )
        found = liar.sum(talk.cohort, question, rounds_of(talk.rule, TrainMasked)[at], 8, names)
        at += 1
        steps = found[-3] * np.append(b, w) - found[:5]
        return np.asarray(steps - len(names) * np.append(0.0, w))  # without the ridge penalty of each site

    far = behind(np.eye(4)[0], 1e3)  # no row is behind that wall: what is left are the rows of the second class
    guesses: list[Floats] = []
    while at < rounds:
        direction = rng.normal(size=4)
        direction /= np.linalg.norm(direction)
        low, high = 0.0, 6.0
        while at < rounds and high - low > 1e-3:
            wall = (low + high) / 2
            found = behind(direction, wall) - far
            count = found[0]
            if 0.9 < count < 1.1:
                guesses.append(found[1:] / count * talk.agreed.spread + talk.agreed.centre)
                break
            low, high = (wall, high) if count > 1 else (low, wall)
    return guesses


def steep_directions(method: str, policy: Policy, quick: bool) -> Learnt:
    """Make up sums from which steep directions follow that differ a little: the rows in between are the difference.

    Of a Newton step from zero with the Hessian of a ridge alone the gradient is the direction.
    """
    way = fedgeom.Shrunk(n_rounds=2, n_folds=5, classes=("no", "yes"))
    liar = Liar(way, patients(4), policy)
    try:
        cohort = liar.join()
        agreed = agree(cohort, way)
        differences = _rotate(way, cohort, agreed)
    except FedgeomError as error:
        return liar.refusal(error)
    rows = [sign * one * agreed.spread + agreed.centre for one in differences for sign in (1, -1)]
    X = _pooled(liar)
    read = rows_read(rows, X)
    return Learnt(f"{read} of {len(X)} rows in one sum", read > 0)


def _rotate(way: Any, cohort: Any, agreed: Any) -> list[Floats]:
    """Return the differences of gradients at directions that are turned by a hundredth each."""
    stack, rng = (len(way.ridges), way.n_folds + 1), np.random.default_rng(1)
    size = terms_length(stack, 4)
    directions = np.zeros((*stack, 4))
    for fold in range(stack[1]):  # each leaves out its own rows, so the turns of a stack are compared
        first, turn = rng.normal(size=4), rng.normal(size=4)
        for at in range(stack[0]):
            one = first + 0.01 * at * turn
            directions[at, fold] = 1e5 * one / np.linalg.norm(one)
    result = cohort.sum_checked(SumTerms(agreed=agreed.hash), length=size)
    lie = Terms(np.zeros(stack), -way.ridges[:, None, None] * directions, np.zeros((*stack, 4, 4)))
    ask = SumTerms(last=forged(result, lie.flat(), SumTerms), agreed=agreed.hash)
    flat = cohort.sum_checked(ask, length=size).reals(SumTerms).reshape(*stack, -1)
    return [one for one in np.diff(flat[..., 1:5], axis=0).reshape(-1, 4) if np.abs(one).max() > 0.05]


def small_cells(method: str, policy: Policy, quick: bool) -> Learnt:
    """Sum cells that hold one row each: say that they hold a hundred."""
    way = fedgeom.XCLP(graph="anchors", n_anchors=48, n_rounds=3, min_cell=5, classes=("no", "yes"))
    liar = Liar(way, patients(3), policy)
    try:
        cohort = liar.join()
        agree_on_names(cohort, way.classes)
        talk = AnchorCoordinator(way, cohort)
        talk._sum(SumUnitRows(), 5)
        sizes = cohort.sum_checked(CountCells(last=talk.last), length=96)
        single = np.rint(sizes.reals(CountCells)[:48]) == 1
        lie = np.concatenate([100.0 * single, 100.0 * single])
        count = int(single.sum())
        ask = SumAnchorCells(last=forged(sizes, lie, CountCells))
        sums = cohort.sum_checked(ask, length=5 * count).reals(SumAnchorCells)[count:].reshape(-1, 4)
    except FedgeomError as error:
        return liar.refusal(error)
    X = _pooled(liar)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    read = rows_read(sums, unit)
    return Learnt(f"{read} of {len(X)} single rows (their directions) at min_cell=5", read > 0)


def chosen_anchors(method: str, policy: Policy, quick: bool) -> Learnt:
    """Lay an anchor beside each row that is known, and ask which labels lie near the anchors."""
    way = fedgeom.XCLP(graph="anchors", n_anchors=60, n_rounds=1, min_cell=1, n_nearest=1, classes=("no", "yes"))
    liar = Liar(way, patients(3), policy)
    X, y = _pooled(liar), np.concatenate([site.y for site in liar.data.values()])
    known = X + 1e-6  # what a neighbour of each patient may know of him: the attacker is after the label
    try:
        cohort = liar.join()
        agree_on_names(cohort, way.classes)
        talk = AnchorCoordinator(way, cohort)
        talk._sum(SumUnitRows(), 5)
        talk._sum(CountCells(last=talk.last), 120)
        cells = talk.state.sums()
        sums = cohort.sum_checked(SumAnchorCells(last=talk.last), length=5 * cells)
        some = known[:cells] / np.linalg.norm(known[:cells], axis=1, keepdims=True)
        lie = np.concatenate([np.ones(cells), some.ravel()])
        pairs = cells * (cells + 1) // 2
        question = SumCodes(last=forged(sums, lie, SumAnchorCells), nearest=1, classes=("no", "yes"))
        flat = cohort.sum_reals(question, length=pairs + cells * 2 + 2)
    except FedgeomError as error:
        return liar.refusal(error)
    near = flat[pairs:][: 2 * cells].reshape(cells, 2)
    right = sum(near[at].sum() > 0 and ("no", "yes")[int(near[at].argmax())] == y[at] for at in range(cells))
    return Learnt(f"the labels of {right} of {cells} known rows", right > 0.8 * cells)


ATTACKS = (
    Attack("a model as a wall", ("fedavg", "fedprox"), "not tried", steep_model),
    Attack("steep directions", ("shrunk",), "not tried", steep_directions),
    Attack(
        "cells of one row",
        ("xclp through anchors",),
        "least_cell was the coordinator's own affair: 16 of 60 single rows at least_cell=5",
        small_cells,
        "permissive",
    ),
    Attack(
        "anchors of the attacker's choice", ("xclp through anchors",), "not tried", chosen_anchors, "permissive"
    ),
)

"""FedAvg+XCLP, Algorithm 2 of "Cross-Client Label Propagation …", written down once more in one loop.

Nothing here knows how fedgeom does it, except how it draws: generators are NumPy's, seeded as documented. Labels spread
by the twin of XCLP. Sites are {name: (X, y)} with "" in y where there is no label; a model is one vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

import numpy as np

import tests.methods.xclp.twin as xclp
from tests.methods.iterative.twin import generator

MOST = 10
"""No pseudo-label counts more than so many labels."""


# Models: what they make of rows, and the slope of their loss, each row's multiplied by its weight.


@dataclass(frozen=True)
class Logistic:
    """Linear scores of all classes (of two, the second's), and a penalty |weights|²/(2Cn) as scikit-learn has it."""

    columns: int
    classes: int
    C: float = 1.0
    seeds_steps = False

    @property
    def start(self):
        """All zeros."""
        return np.zeros((1 + self.columns) * (1 if self.classes == 2 else self.classes))

    def features(self, w, X):
        """There is no body."""
        return X

    def probabilities(self, w, X):
        """The softmax of the scores."""
        scores = np.column_stack([np.ones(len(X)), X]) @ w.reshape(1 + self.columns, -1)
        if self.classes == 2:
            scores = np.column_stack([np.zeros(len(X)), scores])
        odds = np.exp(scores)
        return odds / odds.sum(axis=1, keepdims=True)

    def slope(self, w, X, y, weights, rows):
        """The mean over these rows, with the penalty of all ``rows``."""
        error = weights[:, None] * (self.probabilities(w, X) - np.eye(self.classes)[y]) / len(y)
        if self.classes == 2:
            error = error[:, 1:]
        penalty = w.reshape(1 + self.columns, -1) / (self.C * rows)
        penalty[0] = 0
        return (np.column_stack([np.ones(len(X)), X]).T @ error + penalty).ravel()


@dataclass(frozen=True)
class OneLayer:
    """max(0, Wx + b) are the features, and linear scores of them; W, b, V and c in one vector."""

    columns: int
    units: int
    classes: int
    start: np.ndarray
    seeds_steps = True
    """A network's steps have a seed of their own, which is drawn before the batches."""

    def parts(self, w):
        """W (units, columns), b, V (classes, units) and c."""
        sizes = (self.units * self.columns, self.units, self.classes * self.units, self.classes)
        W, b, V, c = np.split(w, np.cumsum(sizes)[:-1])
        return W.reshape(self.units, self.columns), b, V.reshape(self.classes, self.units), c

    def features(self, w, X):
        """What the layer makes of rows."""
        W, b, _, _ = self.parts(w)
        return np.maximum(X @ W.T + b, 0)

    def probabilities(self, w, X):
        """The softmax of the scores."""
        _, _, V, c = self.parts(w)
        odds = np.exp(self.features(w, X) @ V.T + c)
        return odds / odds.sum(axis=1, keepdims=True)

    def slope(self, w, X, y, weights, rows):
        """By the chain rule; there is no penalty."""
        _, _, V, _ = self.parts(w)
        Z = self.features(w, X)
        error = weights[:, None] * (self.probabilities(w, X) - np.eye(self.classes)[y]) / len(y)
        back = (error @ V) * (Z > 0)
        return np.concatenate([(back.T @ X).ravel(), back.sum(axis=0), (error.T @ Z).ravel(), error.sum(axis=0)])


# Pseudo-labels: for each row a class name ("" for none) and a weight.


def alone(scores_of):
    """Labels of each site by itself, with confidences scaled by what it has alone."""

    def found(sites, names):
        done = {}
        for name, (V, y) in sites.items():
            one = xclp.read(scores_of(name, V, y, names), names)
            done |= xclp.scale_confidences({name: (V, y)}, {name: one}, names)
        return done

    return found


def own_graph(rules):
    """Labels of a site spread over its own rows, by exact cosines; without labels there is nothing to spread."""

    def scores(name, V, y, names):
        if not (y != "").any():
            return np.zeros((len(V), len(names)))
        S = xclp.influence_of(xclp.unit(V) @ xclp.unit(V).T, rules)
        Z = S @ (y[:, None] == np.array(names)).astype(float)
        return xclp.finish({name: (V, y)}, Z, rules, names)[name].scores

    return alone(scores)


def together(propagate):
    """Labels of the round's sites spread over all their rows; without any, rows have none."""

    def found(sites, names):
        if not any((y != "").any() for _, y in sites.values()):
            return dict.fromkeys(sites)
        return propagate(sites, names)

    return found


def over_pairs(rules, L, seed):
    """Algorithm 1 over the sites of the round."""
    return together(lambda sites, names: xclp.propagate(sites, rules, L, seed, names))


def by_anchors(rules, how, seed):
    """The same through anchors."""
    return together(lambda sites, names: xclp.propagate_by_anchors(sites, rules, how, seed, names)[0])


# Batches: one half has labels, the other pseudo-labels.


def batches(labelled, size, epochs, rng, halves=True):
    """The rows of each step; an epoch is a pass over the pseudo-labelled rows."""
    known = np.flatnonzero(labelled)
    others = np.flatnonzero(~labelled)
    half = min(size // 2, len(known), len(others))
    found = []
    if not halves or not half:
        for _ in range(epochs):
            order = rng.permutation(len(labelled))
            found += [order[at : at + size] for at in range(0, len(order), size)]
        return found
    queue = []
    for _ in range(epochs):
        order = list(rng.permutation(others))
        steps = max(len(others) // half, 1)
        for step in range(steps):
            second = order[step * half :] if step == steps - 1 else order[step * half : (step + 1) * half]
            if len(queue) < half:
                queue += list(rng.permutation(known))
            found.append(np.array(queue[:half] + second))
            queue = queue[half:]
    return found


# Algorithm 2.


@dataclass(frozen=True)
class Plan:
    """How long, how much, and when labels spread."""

    rounds: int
    warm: int
    rate: float
    epochs: int
    batch: int
    every: int = 1
    halves: bool = True
    share: float = 1.0
    labelled_sites: tuple[str, ...] = ()
    by_rows: bool = False
    """Whether sites count by the rows that they train on; else all the same."""
    once: bool = False
    """Whether a site keeps the first pseudo-labels that it gets."""
    seed: int = 0

    def drawn(self, names, t):
        """The sites of a round; of those with labels as large a share as of all."""
        wanted = ceil(self.share * len(names))
        if wanted == len(names):
            return list(names)
        rng = np.random.default_rng([self.seed, t, 1])
        known = [name for name in names if name in self.labelled_sites]
        others = [name for name in names if name not in self.labelled_sites]
        if not known or not others:
            return sorted(rng.choice(names, wanted, replace=False).tolist())
        first = min(max(1, floor(wanted * len(known) / len(names) + 0.5)), len(known), wanted)
        second = min(wanted - first, len(others))
        chosen = rng.choice(known, wanted - second, replace=False).tolist()
        return sorted(chosen + rng.choice(others, second, replace=False).tolist())


def standardised(sites):
    """Columns with mean 0 and deviation 1 over all sites' rows, with a label or without."""
    rows = np.vstack([X for X, _ in sites.values()])
    return {name: ((X - rows.mean(axis=0)) / rows.std(axis=0), y) for name, (X, y) in sites.items()}


def semi_supervised(sites, model, source, plan, *, mu=0.0, scaffold=False, watch=lambda t, pseudo: None):
    """Train by FedAvg, FedProx (``mu``) or SCAFFOLD; ``source`` gives pseudo-labels, None: the model's predictions."""
    order = sorted(sites)
    names = sorted({label for _, y in sites.values() for label in y.tolist()} - {""})
    w = model.start
    pseudo = dict.fromkeys(order)
    c = np.zeros_like(w)
    variates = {name: np.zeros_like(w) for name in order}
    for t in range(plan.rounds):
        there = plan.drawn(order, t)
        if t >= plan.warm and (t - plan.warm) % plan.every == 0:
            asked = [name for name in there if not (plan.once and pseudo[name])]
            seen = {name: (model.features(w, sites[name][0]), sites[name][1]) for name in asked}
            if source is None:
                at = w
                find = alone(lambda name, V, y, names, at=at: model.probabilities(at, sites[name][0]))
            else:
                find = source
            pseudo |= find(seen, names)
            watch(t, pseudo)
        sent = {}
        for name in there:
            X, y, weights, labelled = rows_of(sites[name], pseudo[name] if t >= plan.warm else None, names)
            if not len(y):
                continue
            rng = generator(plan.seed, t, name)
            if model.seeds_steps:
                rng.integers(2**31)
            steps = batches(labelled, plan.batch, plan.epochs, rng, plan.halves)
            v = w
            for at in steps:
                extra = c - variates[name] if scaffold else mu * (v - w)
                v = v - plan.rate * (model.slope(v, X[at], y[at], weights[at], len(y)) + extra)
            sent[name] = (v, len(y), len(steps))
        if not sent:
            continue
        counts = [rows if plan.by_rows else 1 for _, rows, _ in sent.values()]
        new = np.average([v for v, _, _ in sent.values()], axis=0, weights=counts)
        moves = []
        for name, (v, _, steps) in sent.items():
            own = variates[name] - c + (w - v) / (steps * plan.rate)
            moves.append(own - variates[name])
            variates[name] = own
        c = c + len(there) / len(order) * np.average(moves, axis=0, weights=counts)
        w = new
    return w


def rows_of(site, pseudo, names):
    """The rows that a site trains on: those with a label count 1, others by their pseudo-label's weight."""
    X, y = site
    codes = []
    weights = []
    for at, label in enumerate(y.tolist()):
        likely = pseudo.labels[at] if pseudo is not None else ""
        weight = min(pseudo.confidences[at], MOST) if pseudo is not None else 0
        codes.append(names.index(label or likely) if label or likely else -1)
        weights.append(1.0 if label else weight if likely else 0.0)
    codes = np.array(codes)
    weights = np.array(weights)
    used = weights > 0
    return X[used], codes[used], weights[used], (y != "")[used]

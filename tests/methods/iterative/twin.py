"""The published algorithms, written down once more from the papers, with minibatches and a share of the clients.

Nothing here knows how fedgeom does it, except how it draws: the generators are NumPy's, seeded as documented, so that
the same rows are in the same batch. Models are (multinomial) logistic regressions that start at zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

LAST = 2**31 - 1
"""The number of the round after the last one, in which clients make their personal models."""


def generator(seed, round, name, purpose=0):
    """Return what a client draws from in a round."""
    return np.random.default_rng([seed, round, purpose, *name.encode()])


# What a client has: rows and a loss.


@dataclass(frozen=True)
class Client:
    """F_k: the mean negative log-likelihood of a client's rows, plus ‖weights‖²/(2Cn) as scikit-learn has it.

    A model w is a matrix row by row: first the intercepts, then the weights of each column; it has one column for
    two classes and otherwise one for each.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: int
    C: float = 1.0

    def __len__(self):
        return len(self.y)

    @property
    def start(self):
        """Return the model at zero."""
        return np.zeros((1 + self.X.shape[1]) * (1 if self.classes == 2 else self.classes))

    def slope(self, w, rows=slice(None)):
        """Return ∇F_k(w), of these rows alone but with the whole penalty."""
        A, y = np.column_stack([np.ones(len(self)), self.X])[rows], self.y[rows]
        M = w.reshape(A.shape[1], -1)
        if self.classes == 2:
            error = 1 / (1 + np.exp(-A @ M)) - y[:, None]
        else:
            odds = np.exp(A @ M)
            error = odds / odds.sum(axis=1, keepdims=True) - np.eye(self.classes)[y]
        penalty = M / (self.C * len(self))
        penalty[0] = 0
        return (A.T @ error / len(y) + penalty).ravel()


def clients_of(sites, C=1.0):
    """Read clients from anything with a name, X and y; classes are numbered in the order of their names."""
    names = sorted({label for site in sites for label in site.y.tolist()})
    numbers = {name: number for number, name in enumerate(names)}
    return [
        Client(site.name, site.X, np.array([numbers[label] for label in site.y.tolist()]), len(names), C)
        for site in sites
    ]


def standardised(clients):
    """Give every column mean 0 and deviation 1 over the rows of all clients together."""
    rows = np.vstack([client.X for client in clients])
    return [replace(client, X=(client.X - rows.mean(axis=0)) / rows.std(axis=0)) for client in clients]


# What a client does in a round: steps over minibatches.


@dataclass(frozen=True)
class Work:
    """How much is done: ``epochs`` or ``steps`` in each round, on ``batch`` rows at a time (None: all)."""

    rounds: int
    rate: float
    steps: int | None = None
    epochs: int = 1
    batch: int | None = None
    share: float = 1.0
    seed: int = 0

    def count(self, client):
        """K: how many steps a client takes."""
        size = min(self.batch or len(client), len(client))
        return self.steps or self.epochs * ceil(len(client) / size)

    def batches(self, client, rng):
        """Draw the rows of each step: every epoch in a new order, cut into pieces."""
        size, found = min(self.batch or len(client), len(client)), []
        while len(found) < self.count(client):
            order = rng.permutation(len(client))
            found += [order[at : at + size] for at in range(0, len(client), size)]
        return found[: self.count(client)]

    def chosen(self, clients, round):
        """Draw the clients of a round, in order."""
        wanted = ceil(self.share * len(clients))
        if wanted == len(clients):
            return range(len(clients))
        return sorted(np.random.default_rng([self.seed, round, 1]).choice(len(clients), wanted, replace=False))

    def visit(self, client, w, rng, *, pull=lambda v: 0.0):
        """Descend F_k from w; ``pull`` is the gradient of what is added to F_k."""
        return descend(lambda v, rows: client.slope(v, rows) + pull(v), w, self.rate, self.batches(client, rng))


def descend(slope, w, rate, batches):
    """Take a step of gradient descent for each batch."""
    for rows in batches:
        w = w - rate * slope(w, rows)
    return w


def mean(models, clients=None):
    """Average models, each by its client's number of rows or (without clients) all alike."""
    return np.average(models, axis=0, weights=None if clients is None else [len(client) for client in clients])


# The algorithms. Each returns the joint model, and the clients' own where it has such.


def fedavg(clients, work):
    """McMahan et al. 2017, Algorithm 1."""
    w = clients[0].start
    for t in range(work.rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        w = mean([work.visit(client, w, generator(work.seed, t, client.name)) for client in there], there)
    return w


def fedprox(clients, work, *, mu):
    """Li et al. 2020, Algorithm 2: w_k ≈ argmin F_k(w) + μ/2‖w − w_t‖²."""
    w = clients[0].start
    for t in range(work.rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        found = [
            work.visit(client, w, generator(work.seed, t, client.name), pull=lambda v, w=w: mu * (v - w))
            for client in there
        ]
        w = mean(found, there)
    return w


def scaffold(clients, work, *, server_rate):
    """Karimireddy et al. 2020, Algorithm 1 with option II."""
    x, n = clients[0].start, len(clients)
    c, variates = np.zeros_like(x), [np.zeros_like(x) for _ in clients]
    for t in range(work.rounds):
        there, changes, moves = work.chosen(clients, t), [], []
        for i in there:
            rng, correction = generator(work.seed, t, clients[i].name), c - variates[i]
            y = work.visit(clients[i], x, rng, pull=lambda v, shift=correction: shift)
            new = variates[i] - c + (x - y) / (work.count(clients[i]) * work.rate)
            changes.append(y - x)
            moves.append(new - variates[i])
            variates[i] = new
        x = x + server_rate * sum(changes) / len(there)
        c = c + sum(moves) / n
    return x


def feddyn(clients, work, *, alpha):
    """Acar et al. 2021, Algorithm 1, with the inner minimum by gradient steps."""
    theta, m = clients[0].start, len(clients)
    h, g = np.zeros_like(theta), [np.zeros_like(theta) for _ in clients]
    for t in range(work.rounds):
        found = []
        for k in work.chosen(clients, t):
            rng = generator(work.seed, t, clients[k].name)
            new = work.visit(clients[k], theta, rng, pull=lambda v, g=g[k], at=theta: -g + alpha * (v - at))
            g[k] = g[k] - alpha * (new - theta)
            found.append(new)
        h = h - alpha / m * sum(new - theta for new in found)
        theta = mean(found) - h / alpha
    return theta


def fedopt(clients, work, *, server_rate, beta1, beta2, tau, yogi):
    """Reddi et al. 2021, Algorithm 2."""
    x = clients[0].start
    m, v = np.zeros_like(x), np.full_like(x, tau**2)
    for t in range(work.rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        delta = mean([work.visit(client, x, generator(work.seed, t, client.name)) - x for client in there], there)
        m = beta1 * m + (1 - beta1) * delta
        yogis = v - (1 - beta2) * delta**2 * np.sign(v - delta**2)
        v = yogis if yogi else beta2 * v + (1 - beta2) * delta**2
        x = x + server_rate * m / (np.sqrt(v) + tau)
    return x


def ditto(clients, work, *, lam):
    """Li et al. 2021, Algorithm 1; afterwards each v_k visits the last w once more.

    The algorithm is given the first v_k; here it is the first joint model that the client sees.
    """
    w, own = clients[0].start, {}

    def personal(k, w, rng):
        return work.visit(clients[k], own.get(k, w), rng, pull=lambda v: lam * (v - w))

    for t in range(work.rounds):
        there, found = work.chosen(clients, t), []
        for k in there:
            rng = generator(work.seed, t, clients[k].name)
            found.append(work.visit(clients[k], w, rng))
            own[k] = personal(k, w, rng)
        w = mean(found, [clients[k] for k in there])
    return w, [personal(k, w, generator(work.seed, LAST, client.name)) for k, client in enumerate(clients)]


def pfedme(clients, work, *, local_rounds, inner_steps, lam, outer_rate, inner_rate, beta):
    """T Dinh et al. 2020, Algorithm 1; in the end θ_k around the last w, on all rows, with the steps of one round."""
    w = clients[0].start

    def near(client, centre, batches):
        return descend(lambda v, at: client.slope(v, at) + lam * (v - centre), centre, inner_rate, batches)

    for t in range(work.rounds):
        copies = []
        for k in work.chosen(clients, t):
            client, copy = clients[k], w
            rng, size = generator(work.seed, t, client.name), min(work.batch or len(client), len(client))
            for _ in range(local_rounds):
                rows = rng.choice(len(client), size, replace=False)
                theta = near(client, copy, [rows] * inner_steps)
                copy = copy - outer_rate * lam * (copy - theta)
            copies.append(copy)
        w = (1 - beta) * w + beta * mean(copies)
    return w, [near(client, w, [slice(None)] * local_rounds * inner_steps) for client in clients]


def fedper(clients, work, head):
    """Arivazhagan et al. 2019, Algorithms 1 and 2. Returns the body's entries and all whole models."""
    body, heads = clients[0].start[~head], [client.start[head] for client in clients]

    def put(k):
        both = np.empty(len(head))
        both[head], both[~head] = heads[k], body
        return both

    for t in range(work.rounds):
        there, found = work.chosen(clients, t), {}
        for k in there:
            found[k] = work.visit(clients[k], put(k), generator(work.seed, t, clients[k].name))
        for k, trained in found.items():
            heads[k] = trained[head]
        body = mean([found[k][~head] for k in there], [clients[k] for k in there])
    return body, [put(k) for k in range(len(clients))]

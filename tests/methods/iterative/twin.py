"""The published algorithms, written down once more from the papers, with minibatches and a share of the clients.

Nothing here knows how fedgeom does it, except how it draws: the generators are NumPy's, seeded as documented, so that
the same rows are in the same batch. Models are (multinomial) logistic regressions that start at zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from scipy.optimize import minimize

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

    def slopes(self, w, rows=slice(None)):
        """Return the gradient of each row's loss, without the penalty: (rows, numbers)."""
        A, y = np.column_stack([np.ones(len(self)), self.X])[rows], self.y[rows]
        M = w.reshape(A.shape[1], -1)
        if self.classes == 2:
            error = 1 / (1 + np.exp(-A @ M)) - y[:, None]
        else:
            odds = np.exp(A @ M)
            error = odds / odds.sum(axis=1, keepdims=True) - np.eye(self.classes)[y]
        return (A[:, :, None] * error[:, None, :]).reshape(len(y), -1)

    def slope(self, w, rows=slice(None)):
        """Return ∇F_k(w), of these rows alone but with the whole penalty."""
        penalty = w.reshape(1 + self.X.shape[1], -1) / (self.C * len(self))
        penalty[0] = 0
        return self.slopes(w, rows).mean(axis=0) + penalty.ravel()

    def surprise(self, w, rows):
        """Return the negative log-likelihood of these rows, added up."""
        scores = np.column_stack([np.ones(len(self)), self.X])[rows] @ w.reshape(1 + self.X.shape[1], -1)
        if self.classes == 2:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        own = scores[np.arange(len(scores)), self.y[rows]]
        return (np.log(np.exp(scores).sum(axis=1)) - own).sum()


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
    """How much is done: ``epochs`` or ``steps`` in each round, on ``batch_size`` rows at a time (None: all)."""

    n_rounds: int
    learning_rate: float
    steps: int | None = None
    epochs: int = 1
    batch_size: int | None = None
    participation: float = 1.0
    seed: int = 0

    def count(self, client):
        """K: how many steps a client takes."""
        size = min(self.batch_size or len(client), len(client))
        return self.steps or self.epochs * ceil(len(client) / size)

    def batches(self, client, rng):
        """Draw the rows of each step: every epoch in a new order, cut into pieces."""
        size, found = min(self.batch_size or len(client), len(client)), []
        while len(found) < self.count(client):
            order = rng.permutation(len(client))
            found += [order[at : at + size] for at in range(0, len(client), size)]
        return found[: self.count(client)]

    def chosen(self, clients, round):
        """Draw the clients of a round, in order."""
        wanted = ceil(self.participation * len(clients))
        if wanted == len(clients):
            return range(len(clients))
        return sorted(np.random.default_rng([self.seed, round, 1]).choice(len(clients), wanted, replace=False))

    def visit(self, client, w, rng, *, pull=lambda v: 0.0):
        """Descend F_k from w; ``pull`` is the gradient of what is added to F_k."""
        return descend(
            lambda v, rows: client.slope(v, rows) + pull(v), w, self.learning_rate, self.batches(client, rng)
        )


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
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        w = mean([work.visit(client, w, generator(work.seed, t, client.name)) for client in there], there)
    return w


def fedprox(clients, work, *, mu, combine=mean):
    """Li et al. 2020, Algorithm 2: w_k ≈ argmin F_k(w) + μ/2‖w − w_t‖²."""
    w = clients[0].start
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        found = [
            work.visit(client, w, generator(work.seed, t, client.name), pull=lambda v, w=w: mu * (v - w))
            for client in there
        ]
        w = combine(found, there)
    return w


def scaffold(clients, work, *, server_learning_rate, combine=lambda models, clients: mean(models)):
    """Karimireddy et al. 2020, Algorithm 1 with option II."""
    x, n = clients[0].start, len(clients)
    c, variates = np.zeros_like(x), [np.zeros_like(x) for _ in clients]
    for t in range(work.n_rounds):
        there, changes, moves = work.chosen(clients, t), [], []
        for i in there:
            rng, correction = generator(work.seed, t, clients[i].name), c - variates[i]
            y = work.visit(clients[i], x, rng, pull=lambda v, shift=correction: shift)
            new = variates[i] - c + (x - y) / (work.count(clients[i]) * work.learning_rate)
            changes.append(y - x)
            moves.append(new - variates[i])
            variates[i] = new
        there = [clients[i] for i in there]
        x = x + server_learning_rate * combine(changes, there)
        c = c + len(there) / n * combine(moves, there)
    return x


def feddyn(clients, work, *, alpha):
    """Acar et al. 2021, Algorithm 1, with the inner minimum by gradient steps."""
    theta, m = clients[0].start, len(clients)
    h, g = np.zeros_like(theta), [np.zeros_like(theta) for _ in clients]
    for t in range(work.n_rounds):
        found = []
        for k in work.chosen(clients, t):
            rng = generator(work.seed, t, clients[k].name)
            new = work.visit(clients[k], theta, rng, pull=lambda v, g=g[k], at=theta: -g + alpha * (v - at))
            g[k] = g[k] - alpha * (new - theta)
            found.append(new)
        h = h - alpha / m * sum(new - theta for new in found)
        theta = mean(found) - h / alpha
    return theta


def fedopt(clients, work, *, server_learning_rate, beta1, beta2, tau, yogi, combine=mean):
    """Reddi et al. 2021, Algorithm 2."""
    x = clients[0].start
    m, v = np.zeros_like(x), np.full_like(x, tau**2)
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        models = [work.visit(client, x, generator(work.seed, t, client.name)) for client in there]
        delta = combine(models, there) - x
        m = beta1 * m + (1 - beta1) * delta
        yogis = v - (1 - beta2) * delta**2 * np.sign(v - delta**2)
        v = yogis if yogi else beta2 * v + (1 - beta2) * delta**2
        x = x + server_learning_rate * m / (np.sqrt(v) + tau)
    return x


def ditto(clients, work, *, lam):
    """Li et al. 2021, Algorithm 1; afterwards each v_k visits the last w once more.

    The algorithm is given the first v_k; here it is the first joint model that the client sees.
    """
    w, own = clients[0].start, {}

    def personal(k, w, rng):
        return work.visit(clients[k], own.get(k, w), rng, pull=lambda v: lam * (v - w))

    for t in range(work.n_rounds):
        there, found = work.chosen(clients, t), []
        for k in there:
            rng = generator(work.seed, t, clients[k].name)
            found.append(work.visit(clients[k], w, rng))
            own[k] = personal(k, w, rng)
        w = mean(found, [clients[k] for k in there])
    return w, [personal(k, w, generator(work.seed, LAST, client.name)) for k, client in enumerate(clients)]


def fedmtl(clients, work, *, lam):
    """Smith et al. 2017 with Ω = (I − 11ᵀ/K)²; the mean of all w_k is that of the last round, as in a simulation.

    Without a client's own model yet it begins with the mean; in the end each visits the last mean once more.
    """
    w, own = clients[0].start, {}

    def near(k, mean_of_all, rng):
        return work.visit(clients[k], own.get(k, mean_of_all), rng, pull=lambda v: lam * (v - mean_of_all))

    for t in range(work.n_rounds):
        there = work.chosen(clients, t)
        for k in there:
            own[k] = near(k, w, generator(work.seed, t, clients[k].name))
        w = mean([own[k] for k in there])
    return w, [near(k, w, generator(work.seed, LAST, client.name)) for k, client in enumerate(clients)]


def apple(clients, work, *, share_learning_rate, mu, settling):
    """Luo and Wu 2022: core models w_j in the open, and for each client shares p_ij of them; p_ij begin as 1/K."""
    K = len(clients)
    cores, shares = [clients[0].start] * K, [np.full(K, 1 / K) for _ in clients]
    last = int(settling * work.n_rounds)
    for t in range(work.n_rounds):
        firmness = mu * (np.cos(t * np.pi / last) + 1) / 2 if t < last else 0
        given = list(cores)
        for i in work.chosen(clients, t):
            client, own = clients[i], list(given)
            for rows in work.batches(client, generator(work.seed, t, client.name)):
                slope = client.slope(sum(p * w for p, w in zip(shares[i], own, strict=True)), rows)
                slopes = [slope @ w + firmness * (p - 1 / K) for p, w in zip(shares[i], own, strict=True)]
                own[i] = own[i] - work.learning_rate * shares[i][i] * slope
                shares[i] = shares[i] - share_learning_rate * np.array(slopes)
            cores[i] = own[i]
    there = work.chosen(clients, work.n_rounds - 1)
    joint = mean([cores[i] for i in there], [clients[i] for i in there])
    return joint, [sum(p * w for p, w in zip(own, cores, strict=True)) for own in shares]


def pfedme(clients, work, *, local_rounds, inner_steps, lam, outer_learning_rate, inner_learning_rate, beta):
    """T Dinh et al. 2020, Algorithm 1; in the end θ_k around the last w, on all rows, with the steps of one round."""
    w = clients[0].start

    def near(client, centre, batches):
        return descend(
            lambda v, at: client.slope(v, at) + lam * (v - centre), centre, inner_learning_rate, batches
        )

    for t in range(work.n_rounds):
        copies = []
        for k in work.chosen(clients, t):
            client, copy = clients[k], w
            rng, size = generator(work.seed, t, client.name), min(work.batch_size or len(client), len(client))
            for _ in range(local_rounds):
                rows = rng.choice(len(client), size, replace=False)
                theta = near(client, copy, [rows] * inner_steps)
                copy = copy - outer_learning_rate * lam * (copy - theta)
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

    for t in range(work.n_rounds):
        there, found = work.chosen(clients, t), {}
        for k in there:
            found[k] = work.visit(clients[k], put(k), generator(work.seed, t, clients[k].name))
        for k, trained in found.items():
            heads[k] = trained[head]
        body = mean([found[k][~head] for k in there], [clients[k] for k in there])
    return body, [put(k) for k in range(len(clients))]


# What else may be chosen: how models become one, how the rate goes, what a site makes of the last joint model.


def averaging(clients, work, combine=mean, factor=lambda t: 1.0):
    """FedAvg with another way to put models together, and a learning rate that changes with the rounds."""
    w = clients[0].start
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        now = replace(work, learning_rate=work.learning_rate * factor(t))
        w = combine([now.visit(client, w, generator(work.seed, t, client.name)) for client in there], there)
    return w


def trimmed(models, clients, share):
    """Yin et al. 2018: the mean of each number without the lowest and the highest."""
    cut = int(share * len(models))
    return np.sort(models, axis=0)[cut : len(models) - cut].mean(axis=0)


def krum(models, clients, bad):
    """Blanchard et al. 2017: the model with the least sum of squared distances to its n - f - 2 nearest."""
    scores = []
    for one in models:
        gaps = sorted(((one - other) ** 2).sum() for other in models)
        scores.append(sum(gaps[1 : len(models) - bad - 1]))  # the first is to itself
    return models[int(np.argmin(scores))]


def geometric(models, clients):
    """Pillutla et al. 2022: the point with the least sum of distances, by rows."""
    points = np.array(models)
    weights = np.array([len(client) for client in clients])

    def cost(z):
        return weights @ np.sqrt(((points - z) ** 2).sum(axis=1) + 1e-20)

    return minimize(cost, points.mean(axis=0), method="BFGS", options={"gtol": 1e-10, "maxiter": 10_000}).x


def median_of_groups(groups, typical=lambda means: np.median(means, axis=0), by_rows=True):
    """The median over the means of groups, each by rows (Chen, Su and Xu 2017); groups are lists of names."""

    def combine(models, clients):
        by_name = dict(zip([client.name for client in clients], zip(models, clients, strict=True), strict=True))
        parts = [[by_name[name] for name in group] for group in groups]
        return typical([mean([m for m, _ in part], [c for _, c in part] if by_rows else None) for part in parts])

    return combine


def fedavgm(clients, work, *, server_learning_rate, server_momentum, combine=mean):
    """Hsu, Qi and Brown 2019: momentum at the coordinator."""
    w = clients[0].start
    m = np.zeros_like(w)
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        models = [work.visit(client, w, generator(work.seed, t, client.name)) for client in there]
        m = server_momentum * m + combine(models, there) - w
        w = w + server_learning_rate * m
    return w


def fedexp(clients, work, *, epsilon):
    """Jhunjhunwala, Wang and Joshi 2023, Algorithm 1, with p_k for 1/M: η_g = max(1, Σ p‖Δ_k‖²/(2(‖Δ‖² + ε)))."""
    w = clients[0].start
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        changes = [work.visit(one, w, generator(work.seed, t, one.name)) - w for one in there]
        together = mean(changes, there)
        apart = mean([np.array([np.linalg.norm(change) ** 2]) for change in changes], there)[0]
        w = w + max(1.0, apart / (2 * (np.linalg.norm(together) ** 2 + epsilon))) * together
    return w


def feddc(clients, work, *, alpha):
    """Gao et al. 2022: local drifts h_k, and the last changes of a client and of all."""
    w = clients[0].start
    h, last = {client.name: 0 * w for client in clients}, {client.name: 0 * w for client in clients}
    shared = 0 * w
    for t in range(work.n_rounds):
        there, moved, changes = [clients[k] for k in work.chosen(clients, t)], [], []
        for client in there:
            name, rate = client.name, work.learning_rate * work.count(client)

            def pull(v, name=name, rate=rate, w=w, shared=shared):
                return alpha * (v + h[name] - w) + (last[name] - shared) / rate

            new = work.visit(client, w, generator(work.seed, t, name), pull=pull)
            h[name], last[name] = h[name] + new - w, new - w
            moved.append(new + h[name])
            changes.append(last[name])
        w, shared = mean(moved, there), mean(changes, there)
    return w


def fedala(clients, work, *, rate, share, steps):
    """Zhang et al. 2023, Eq. 4 and 5, over all parameters. Returns the joint model and the clients' last mixtures."""
    w, own, weights = clients[0].start, {}, {}

    def mixture(client, rng):
        if client.name not in own:
            return w
        v, W = own[client.name], weights.get(client.name, np.ones_like(w))
        count = max(ceil(share * len(client)), 2)
        rows = rng.permutation(len(client))[:count]
        part = replace(client, X=client.X[rows], y=client.y[rows])
        for _ in range(steps):
            W = np.clip(W - rate * part.slope(v + (w - v) * W) * (w - v), 0, 1)
        weights[client.name] = W
        return v + (w - v) * W

    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        for client in there:
            rng = generator(work.seed, t, client.name)
            begin = mixture(client, rng)
            own[client.name] = work.visit(client, begin, rng)
        w = mean([own[client.name] for client in there], there)
    return w, [mixture(client, generator(work.seed, LAST, client.name)) for client in clients]


def fednova(clients, work):
    """Wang et al. 2020: changes by step, times the mean number of steps."""
    w = clients[0].start
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        steps = [work.count(client) for client in there]
        changes = [work.visit(one, w, generator(work.seed, t, one.name)) - w for one in there]
        direction = mean([change / count for change, count in zip(changes, steps, strict=True)], there)
        w = w + mean(np.array(steps, float)[:, None], there) * direction
    return w


def fedrep(clients, work, head, *, head_epochs):
    """Collins et al. 2021, Algorithm 1; in the end heads once more. Returns the body's entries and all whole models."""
    heads = [client.start[head] for client in clients]
    body = clients[0].start[~head]

    def put(k):
        both = np.empty(len(head))
        both[head] = heads[k]
        both[~head] = body
        return both

    def trained(k, rng):
        batches = replace(work, epochs=head_epochs, steps=None).batches(clients[k], rng)
        return descend(
            lambda v, at: np.where(head, clients[k].slope(v, at), 0), put(k), work.learning_rate, batches
        )

    for t in range(work.n_rounds):
        there = work.chosen(clients, t)
        found = []
        for k in there:
            rng = generator(work.seed, t, clients[k].name)
            v = trained(k, rng)
            heads[k] = v[head]
            batches = work.batches(clients[k], rng)
            v = descend(
                lambda v, at, c=clients[k]: np.where(head, 0, c.slope(v, at)), v, work.learning_rate, batches
            )
            found.append(v[~head])
        body = mean(found, [clients[k] for k in there])
    return body, [trained(k, generator(work.seed, LAST, client.name)) for k, client in enumerate(clients)]


def fedbabu(clients, work, head):
    """Oh et al. 2022: rounds leave the head as it is; in the end each client trains all. Returns joint and own ones."""
    w = clients[0].start
    for t in range(work.n_rounds):
        there = [clients[k] for k in work.chosen(clients, t)]
        found = []
        for client in there:
            batches = work.batches(client, generator(work.seed, t, client.name))
            found.append(
                descend(lambda v, at, c=client: np.where(head, 0, c.slope(v, at)), w, work.learning_rate, batches)
            )
        w = mean(found, there)
    return w, [work.visit(client, w, generator(work.seed, LAST, client.name)) for client in clients]


def local_only(clients, work):
    """Every client by itself: all rounds in its last visit. Returns the clients' own models."""
    models = []
    for client in clients:
        w = client.start
        rng = generator(work.seed, LAST, client.name)
        for _ in range(work.n_rounds):
            w = work.visit(client, w, rng)
        models.append(w)
    return models


def interpolated(clients, work, mix=None):
    """FedAvg, and mixtures with what each client makes of it; without ``mix``, by cross-validation in four folds."""
    w = fedavg(clients, work)
    models = []
    for client in clients:
        rng = generator(work.seed, LAST, client.name)
        local = work.visit(client, w, rng)
        a = chosen_mix(client, work, w, rng) if mix is None else mix
        models.append((1 - a) * w + a * local)
    return w, models


def chosen_mix(client, work, w, rng):
    """The mixture, in tenths, under which rows are likeliest that a client's own model has not seen."""
    fold = np.zeros(len(client), int)
    for label in sorted(set(client.y.tolist())):
        order = rng.permutation(np.flatnonzero(client.y == label))
        first = rng.integers(4)
        fold[order] = (np.arange(len(order)) + first) % 4
    losses = np.zeros(11)
    for f in range(4):
        out = fold == f
        if out.any() and not out.all():
            local = work.visit(replace(client, X=client.X[~out], y=client.y[~out]), w, rng)
            losses += [client.surprise((1 - a) * w + a * local, out) for a in np.arange(11) / 10]
    return np.argmin(losses) / 10


def set_aside(clients, work, share):
    """Split each client into rows to train on and rows to watch."""
    pairs = []
    for client in clients:
        order = generator(work.seed, LAST, client.name, 1).permutation(len(client))
        out = np.isin(np.arange(len(client)), order[: int(share * len(client))])
        pairs.append([replace(client, X=client.X[rows], y=client.y[rows]) for rows in (~out, out)])
    return [list(side) for side in zip(*pairs, strict=True)]


def stopped_early(clients, work, share, patience):
    """FedAvg until the loss of rows set aside has not fallen for some rounds: the best joint model, and the losses."""
    trained, watched = set_aside(clients, work, share)
    w = clients[0].start
    models = []
    losses = []
    for t in range(work.n_rounds):
        models.append(w)
        loss = sum(client.surprise(w, slice(None)) for client in watched) / sum(len(client) for client in watched)
        losses.append(loss)
        best = int(np.argmin(losses))
        if t - best >= patience:
            return models[best], losses
        w = mean([work.visit(client, w, generator(work.seed, t, client.name)) for client in trained], trained)
    return w, losses


# Optimizers of torch modules; each visit begins anew.


def sgd(rate, momentum=0.0, weight_decay=0.0, nesterov=False, clip=np.inf):
    """Sutskever et al. 2013, with the gradient of ½·decay·‖w‖² and shortened gradients."""
    velocity = 0.0

    def step(w, slope):
        nonlocal velocity
        slope = slope * min(1, clip / np.linalg.norm(slope)) + weight_decay * w
        velocity = momentum * velocity + slope
        return w - rate * (slope + momentum * velocity if nesterov else velocity)

    return step


def adamw(rate, beta1, beta2, weight_decay):
    """Loshchilov and Hutter 2019, Algorithm 2, with ε = 1e-8."""
    first = 0.0
    second = 0.0
    t = 0

    def step(w, slope):
        nonlocal first, second, t
        t += 1
        first = beta1 * first + (1 - beta1) * slope
        second = beta2 * second + (1 - beta2) * slope**2
        ahead = first / (1 - beta1**t) / (np.sqrt(second / (1 - beta2**t)) + 1e-8)
        return w - rate * (ahead + weight_decay * w)

    return step


def optimized(clients, work, optimizer, nova=None):
    """FedAvg of models that an optimizer trains; or FedNova, if ``nova`` is the momentum of its steps."""
    w = clients[0].start
    for t in range(work.n_rounds):
        models = []
        for client in clients:
            rng = generator(work.seed, t, client.name)
            rng.integers(2**31)  # what a module draws from
            v = w
            step = optimizer()
            for rows in work.batches(client, rng):
                v = step(v, client.slope(v, rows))
            models.append(v)
        if nova is None:
            w = mean(models, clients)
            continue
        # How often each gradient is in a client's change: the first as often as there are steps, the last once.
        counts = [sum(sum(nova**k for k in range(j + 1)) for j in range(work.count(client))) for client in clients]
        direction = mean([(v - w) / a for v, a in zip(models, counts, strict=True)], clients)
        w = w + mean(np.array(counts)[:, None], clients) * direction
    return w


# With privacy.


def private_rows(clients, work, clip):
    """Abadi et al. 2016: steps along the mean of all rows' gradients, each no longer than ``clip``."""
    w = clients[0].start
    n = sum(len(client) for client in clients)
    for _ in range(work.n_rounds):
        total = np.zeros_like(w)
        for client in clients:
            slopes = client.slopes(w)
            total += (slopes * np.minimum(1, clip / np.linalg.norm(slopes, axis=1))[:, None]).sum(axis=0)
        penalty = w.reshape(1 + clients[0].X.shape[1], -1) / (clients[0].C * n)
        penalty[0] = 0
        w = w - work.learning_rate * (total / n + penalty.ravel())
    return w


def private_sites(clients, work, clip):
    """McMahan et al. 2018: the mean of clients' changes, each no longer than ``clip``."""
    w = clients[0].start
    for t in range(work.n_rounds):
        changes = [work.visit(client, w, generator(work.seed, t, client.name)) - w for client in clients]
        w = w + mean([change * min(1, clip / np.linalg.norm(change)) for change in changes])
    return w

"""The published algorithms, written down once more from the papers: full batches, all sites in every round.

``slopes[k](w)`` is ∇F_k. Nothing here knows how fedgeom does it.
"""

from __future__ import annotations

import numpy as np


def logistic_slopes(sites, C=1.0):
    """Binary logistic regression on raw columns: w = (intercept, weights), sklearn's penalty on the weights."""
    names = sorted({label for site in sites for label in site.y.tolist()})
    slopes = []
    for site in sites:
        A = np.column_stack([np.ones(len(site)), site.X])
        y = np.array([float(names.index(label)) for label in site.y.tolist()])

        def slope(w, A=A, y=y):
            chance = 1 / (1 + np.exp(-A @ w))
            penalty = np.r_[0.0, w[1:]] / (C * len(y))
            return A.T @ (chance - y) / len(y) + penalty

        slopes.append(slope)
    return slopes


def shares_of(sites):
    counts = np.array([len(site) for site in sites], float)
    return counts / counts.sum()


def descend(slope, w, rate, steps):
    for _ in range(steps):
        w = w - rate * slope(w)
    return w


def fedavg(slopes, w, shares, *, rounds, rate, steps):
    """McMahan et al. 2017, Algorithm 1."""
    for _ in range(rounds):
        w = sum(p * descend(slope, w, rate, steps) for p, slope in zip(shares, slopes, strict=True))
    return w


def fedprox(slopes, w, shares, *, rounds, rate, steps, mu):
    """Li et al. 2020, Algorithm 2: w_k ≈ argmin F_k(w) + μ/2‖w − w_t‖²."""
    for _ in range(rounds):
        w = sum(
            p * descend(lambda v, f=slope, w=w: f(v) + mu * (v - w), w, rate, steps)
            for p, slope in zip(shares, slopes, strict=True)
        )
    return w


def scaffold(slopes, x, *, rounds, rate, steps, server_rate):
    """Karimireddy et al. 2020, Algorithm 1 with option II."""
    n = len(slopes)
    c, variates = np.zeros_like(x), [np.zeros_like(x) for _ in slopes]
    for _ in range(rounds):
        changes, moves = [], []
        for i, slope in enumerate(slopes):
            y = x.copy()
            for _ in range(steps):
                y = y - rate * (slope(y) - variates[i] + c)
            new = variates[i] - c + (x - y) / (steps * rate)
            changes.append(y - x)
            moves.append(new - variates[i])
            variates[i] = new
        x = x + server_rate * sum(changes) / n
        c = c + sum(moves) / n
    return x


def feddyn(slopes, theta, *, rounds, rate, steps, alpha):
    """Acar et al. 2021, Algorithm 1, with the inner minimum by gradient steps."""
    m = len(slopes)
    h, g = np.zeros_like(theta), [np.zeros_like(theta) for _ in slopes]
    for _ in range(rounds):
        found = []
        for k, slope in enumerate(slopes):
            inner = descend(lambda v, f=slope, g=g[k], t=theta: f(v) - g + alpha * (v - t), theta, rate, steps)
            g[k] = g[k] - alpha * (inner - theta)
            found.append(inner)
        h = h - alpha / m * sum(inner - theta for inner in found)
        theta = sum(found) / m - h / alpha
    return theta


def fedopt(slopes, x, shares, *, rounds, rate, steps, server_rate, beta1, beta2, tau, yogi):
    """Reddi et al. 2021, Algorithm 2."""
    m, v = np.zeros_like(x), np.full_like(x, tau**2)
    for _ in range(rounds):
        delta = sum(p * (descend(f, x, rate, steps) - x) for p, f in zip(shares, slopes, strict=True))
        m = beta1 * m + (1 - beta1) * delta
        yogis = v - (1 - beta2) * delta**2 * np.sign(v - delta**2)
        v = yogis if yogi else beta2 * v + (1 - beta2) * delta**2
        x = x + server_rate * m / (np.sqrt(v) + tau)
    return x


def ditto(slopes, w, shares, *, rounds, rate, steps, lam):
    """Li et al. 2021, Algorithm 1; afterwards each v_k visits the last w once more. Returns w and all v_k."""
    personal = [w.copy() for _ in slopes]

    def visit(k, w):
        return descend(lambda v: slopes[k](v) + lam * (v - w), personal[k], rate, steps)

    for _ in range(rounds):
        new = sum(p * descend(f, w, rate, steps) for p, f in zip(shares, slopes, strict=True))
        personal = [visit(k, w) for k in range(len(slopes))]
        w = new
    return w, [visit(k, w) for k in range(len(slopes))]


def pfedme(slopes, w, *, rounds, local_rounds, inner_steps, lam, outer_rate, inner_rate, beta):
    """T Dinh et al. 2020, Algorithm 1, with full batches."""
    for _ in range(rounds):
        copies = []
        for slope in slopes:
            copy = w.copy()
            for _ in range(local_rounds):
                theta = descend(lambda v, f=slope, c=copy: f(v) + lam * (v - c), copy, inner_rate, inner_steps)
                copy = copy - outer_rate * lam * (copy - theta)
            copies.append(copy)
        w = (1 - beta) * w + beta * sum(copies) / len(copies)
    return w


def fedper(slopes, w, shares, head, *, rounds, rate, steps):
    """Arivazhagan et al. 2019, Algorithms 1 and 2. Returns the body's entries and all whole models."""
    heads = [w[head].copy() for _ in slopes]
    body = w[~head].copy()

    def put(k):
        both = np.empty_like(w)
        both[head], both[~head] = heads[k], body
        return both

    for _ in range(rounds):
        trained = [descend(f, put(k), rate, steps) for k, f in enumerate(slopes)]
        heads = [v[head] for v in trained]
        body = sum(p * v[~head] for p, v in zip(shares, trained, strict=True))
    return body, [put(k) for k in range(len(slopes))]

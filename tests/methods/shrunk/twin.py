"""Personal models shrunk towards a joint one, written down once more from the objectives of docs/shrunk.md.

Nothing here knows how fedgeom does it, except how rows are dealt to folds: the generator is NumPy's, seeded as
documented. Every optimum is searched for by SciPy, over the direction and all sites' intercepts together (fedgeom
profiles intercepts out and takes Newton's steps over sums); AUCs are scikit-learn's. Sites are {name: (X, y)}.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, softmax
from sklearn.metrics import roc_auc_score

ALPHAS = (1, 3, 10, 30, 100, 300)
LAMBDAS = (3, 10, 30, 100, np.inf)
LAMBDAS_OF_SEVERAL = (0.03, 0.3, 3, 30, np.inf)
"""With more than two classes, where λ counts in the variances of the site's own rows."""
TAU = 0.01
"""A penalty on intercepts, so that sites with one class have one."""


# Rows.


def scaled(sites, how):
    """Columns less their mean, by their deviation: over all sites' rows, over each site's own, or as they are."""
    everybody = np.vstack([X for X, _ in sites.values()])
    found = {}
    for name, (X, y) in sites.items():
        known = {"joint": everybody, "site": X}.get(how)
        found[name] = (X if known is None else (X - known.mean(axis=0)) / known.std(axis=0), y)
    return found


def folds(codes, count, seed, name):
    """Deal rows to folds class by class: in a random order, one after the other, beginning with a random fold."""
    rng = np.random.default_rng([seed, 2**31 - 1, 3, *name.encode()])
    found = np.zeros(len(codes), int)
    for code in sorted(set(codes.tolist())):
        order = rng.permutation(np.flatnonzero(codes == code))
        first = rng.integers(count)
        for place, row in enumerate(order):
            found[row] = (place + first) % count
    return found


# Optima.


def loss(scores, y):
    """Σ log(1 + exp(-y·s)) for y = ±1."""
    return np.logaddexp(0, -(2 * y - 1) * scores).sum()


def joint_direction(tables, alpha):
    """argmin Σ_k min_b [loss_k(w, b) + τ/2·b²] + α/2·|w|², over w and all b together."""
    columns = tables[0][0].shape[1]

    def cost(v):
        w = v[:columns]
        value = alpha / 2 * w @ w
        slope = np.zeros_like(v)
        slope[:columns] = alpha * w
        for k, (X, y) in enumerate(tables):
            b = v[columns + k]
            scores = X @ w + b
            error = expit(scores) - y
            value += loss(scores, y) + TAU / 2 * b**2
            slope[:columns] += X.T @ error
            slope[columns + k] = error.sum() + TAU * b
        return value, slope

    return search(cost, np.zeros(columns + len(tables)))[:columns]


def best_intercept(X, y, w):
    """argmin loss(w, b) + τ/2·b² over b."""
    return minimize_scalar(lambda b: loss(X @ w + b, y) + TAU / 2 * b**2, tol=1e-12).x


def own_direction(X, y, w, strength, variance):
    """argmin loss(v, b) + λ/2·Σ variance·(v - w)² + τ/2·b²."""
    if strength == np.inf:
        return w, best_intercept(X, y, w)
    strength = strength * variance

    def cost(z):
        v = z[:-1]
        b = z[-1]
        scores = X @ v + b
        error = expit(scores) - y
        value = loss(scores, y) + (strength * (v - w) ** 2).sum() / 2 + TAU / 2 * b**2
        return value, np.append(X.T @ error + strength * (v - w), error.sum() + TAU * b)

    found = search(cost, np.append(w, 0.0))
    return found[:-1], found[-1]


def search(cost, start):
    """The minimum of a convex function that comes with its gradient."""
    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 30}
    return minimize(cost, start, jac=True, method="L-BFGS-B", options=options).x


# The choice.


def held_out(X, y, fold, directions, strength, count, variance):
    """Scores of each fold by a model that saw neither its rows nor, in the joint direction, anybody's of the fold."""
    scores = np.zeros(len(y))
    for f in range(count):
        out = fold == f
        if out.any() and not out.all():
            v, b = own_direction(X[~out], y[~out], directions[f], strength, variance)
            scores[out] = X[out] @ v + b
    return scores


def auc(y, scores):
    """½ where there is one class only."""
    return roc_auc_score(y, scores) if 0 < y.sum() < len(y) else 0.5


def shares(mine, others, rows, prior_rows, temperature):
    """A softmax of the candidates' AUCs: the site's own for its rows, the others' for ``prior_rows`` rows."""
    if mine is None:
        found = others
    elif others is None:
        found = mine
    else:
        found = (rows * mine + prior_rows * others) / (rows + prior_rows)
    return softmax(found / temperature)


def mean_auc(table):
    """The mean of sites' AUCs, by their rows of the rarer class; None: nobody has both."""
    weights = [one["rare"] for one in table]
    return np.average([one["auc"] for one in table], axis=0, weights=weights) if sum(weights) else None


def lambdas(X, several):
    """The λ that are tried, and what they count in, column by column: of two classes as columns are scaled."""
    return (LAMBDAS_OF_SEVERAL, X.var(axis=0)) if several else (LAMBDAS, np.ones(X.shape[1]))


def gather(tables, folds_of, count, several):
    """Joint directions for each α and fold, and what sites find by cross-validation; tables {name: (X, 0 or 1)}."""
    directions = {}
    for alpha in ALPHAS:
        for f in range(count + 1):  # the last leaves nothing out
            kept = [(X[folds_of[name] != f], y[folds_of[name] != f]) for name, (X, y) in tables.items()]
            directions[alpha, f] = joint_direction(kept, alpha)
    evidence = {}
    for name, (X, y) in tables.items():
        tried, variance = lambdas(X, several)
        quality = np.zeros((len(ALPHAS), len(tried)))
        spread = np.zeros_like(quality)
        for a, alpha in enumerate(ALPHAS):
            for s, strength in enumerate(tried):
                without = [directions[alpha, f] for f in range(count)]
                scores = held_out(X, y, folds_of[name], without, strength, count, variance)
                quality[a, s] = auc(y, scores)
                spread[a, s] = scores.std()
        both = 0 < y.sum() < len(y)
        at_joint = [best_intercept(X, y, directions[alpha, count]) for alpha in ALPHAS]
        evidence[name] = {
            "auc": quality,
            "spread": spread,
            "rare": min(y.sum(), len(y) - y.sum()),
            "rows": len(y) if both else 0,
            "intercepts": np.array(at_joint),
        }
    return tables, [directions[alpha, count] for alpha in ALPHAS], evidence, several


def joint_model(directions, evidence, temperature):
    """A mixture of the joint directions, by how well they do without any way of a site's own."""
    chosen = shares(None, mean_auc(list(evidence.values())), 0, 0, temperature)[:, -1]
    chosen = chosen / chosen.sum()
    rows = [one["rows"] for one in evidence.values()]
    middle = np.average([one["intercepts"] for one in evidence.values()], axis=0, weights=rows)
    return chosen @ np.array(directions), chosen @ middle


def own_model(name, tables, directions, evidence, several, prior_rows, temperature):
    """A mixture of a site's candidates, each brought to the same spread of its held-out scores.

    Of more than two classes, whose scores are compared, the mixture gets the intercept that is best for it.
    """
    X, y = tables[name]
    tried, variance = lambdas(X, several)
    one = evidence[name]
    others = mean_auc([evidence[other] for other in tables if other != name])
    mix = shares(one["auc"] if one["rare"] else None, others, one["rows"], prior_rows, temperature)
    mix = np.where(mix > 1e-3, mix, 0)
    mix = mix / mix.sum()
    common = (mix * one["spread"]).sum()
    v = np.zeros(X.shape[1])
    b = 0.0
    for a, s in np.argwhere(mix > 0):
        direction, intercept = own_direction(X, y, directions[a], tried[s], variance)
        factor = mix[a, s] * common / one["spread"][a, s]
        v = v + factor * direction
        b = b + factor * intercept
    return v, best_intercept(X, y, v) if several else b


def prepare(sites, classes, seed=0, scale="joint", count=5):
    """What is known of each outcome before anything is chosen: of two classes the second, of more each."""
    tables = scaled(sites, scale)
    codes = {name: np.array([classes.index(label) for label in y.tolist()]) for name, (_, y) in tables.items()}
    folds_of = {name: folds(codes[name], count, seed, name) for name in tables}
    found = []
    for code in [1] if len(classes) == 2 else range(len(classes)):
        told = {name: (X, (codes[name] == code).astype(int)) for name, (X, _) in tables.items()}
        found.append(gather(told, folds_of, count, len(classes) > 2))
    return found


def settle(gathered, prior_rows=200, temperature=0.01):
    """Weights (columns, outcomes) and intercepts (outcomes,): of the joint model, and of each site's own."""

    def put(models):
        return np.column_stack([w for w, _ in models]), np.array([b for _, b in models])

    joint = put([joint_model(directions, evidence, temperature) for _, directions, evidence, _ in gathered])
    names = list(gathered[0][0])
    return joint, {
        name: put([own_model(name, *one, prior_rows, temperature) for one in gathered]) for name in names
    }


def probabilities(w, b, X):
    """Of two classes the second's; of more, each one's chance against the others, brought to a sum of one."""
    chances = expit(X @ w + b)
    if chances.shape[1] == 1:
        return np.hstack([1 - chances, chances])
    return chances / chances.sum(axis=1, keepdims=True)

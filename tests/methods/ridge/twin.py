"""Ridge classification on features, written down once more from docs/ridge.md, on all rows in one place.

Nothing here knows how fedgeom does it, except how it draws: Gaussians from a hash of what they are for and of the seed.
fedgeom solves equations from sums over sites; here a singular value decomposition of the features themselves does it,
every λ of the grid is tried, rows that are left out are left out, and patches are cut out one by one, in double
precision.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import norm
from sklearn.linear_model import Ridge as Regression

LAMBDAS = [10 ** (step / 2) for step in range(-8, 13)]
TEMPERATURES = [10 ** (step / 12) for step in range(-30, 13)]
STRENGTHS = [10 ** (step / 2) for step in range(11)] + [np.inf]


def gaussians(seed, what, count, columns):
    """Philox words of a hash: 16 bytes are the key, 16 count from above; 53 bits of a word are a quantile."""
    secret = hashlib.sha256(f"fedgeom ridge {what} {seed}".encode()).digest()
    key, above = (int.from_bytes(half, "little") for half in (secret[:16], secret[16:]))
    words = np.random.Philox(key=key, counter=above << 128).random_raw(count * columns)
    return norm.ppf(((words >> np.uint64(11)).astype(float) + 0.5) / 2**53).reshape(count, columns)


# Features: functions of (rows, all rows that are learnt from, seed).


def standardised(X, known):
    """Columns with mean 0 and deviation 1 over the known rows; constant ones are 0."""
    spread = known.std(axis=0)
    return (X - known.mean(axis=0)) / np.where(spread > 0, spread, np.inf)


def linear(X, known, seed):
    """The columns."""
    return standardised(X, known)


def fourier(count, bandwidth=1.0, joint=False):
    """√2·cos(ωᵀx/σ + b); σ² is bandwidth² times the mean squared length of a row."""

    def found(X, known, seed):
        rows = X - known.mean(axis=0) if joint else standardised(X, known)
        mine = known - known.mean(axis=0) if joint else standardised(known, known)
        width = bandwidth * np.sqrt((mine**2).sum(axis=1).mean())
        phases = 2 * np.pi * norm.cdf(gaussians(seed, "phases", count, 1)[:, 0])
        return np.sqrt(2) * np.cos(rows @ gaussians(seed, "frequencies", count, X.shape[1]).T / width + phases)

    return found


def binned(bins, group=2, shuffles=1):
    """Each column in bins of equal Gaussian shares; columns are shuffled, dealt to groups, and groups one-hot."""

    def found(X, known, seed):
        places = np.digitize(standardised(X, known), norm.ppf(np.arange(1, bins) / bins))
        groups = -(-X.shape[1] // group)
        blocks = []
        for shuffle in range(shuffles):
            order = np.argsort(gaussians(seed, f"shuffle {shuffle}", 1, X.shape[1])[0])
            for at in range(groups):
                cell = np.zeros(len(X), int)
                for column in order[at::groups]:
                    cell = cell * bins + places[:, column]
                blocks.append(np.eye(bins**group)[cell])
        return np.hstack(blocks)

    return found


@dataclass(frozen=True)
class Convolution:
    """Filters of contrast-normalised patches, two-sided responses, pooled, and the brightness of regions."""

    shape: tuple[int, int, int]
    n_filters: int
    patch_size: int
    padding: int
    pools: int
    means: int
    threshold: float = 0.25
    mirror: bool = False
    overlap: float = 0.0
    """0: each place is in one pool. Else each pool is a mean of all places, by Gaussian weights around its centre."""
    n_rounds: int = 0
    """Steps in which filters are learnt; 0: they are random."""
    least: int = 1
    """Clusters in fewer images do not move."""

    def __call__(self, X, known, seed):
        """The features of rows."""
        bank, offsets = self.bank(known, seed)
        contrast = known.std()
        images = X.reshape(len(X), *self.shape).astype(float)
        turned = images[:, :, ::-1]
        views = [images, turned] if self.mirror else [images]
        responses = np.mean([self.responses(view, bank, offsets, contrast) for view in views], axis=0)
        light = [np.mean([self.light(view) for view in views], axis=0)]
        if self.mirror and self.means:
            halves = light[0].reshape(len(X), self.means, self.means, -1)[:, :, : (self.means + 1) // 2]
            light = [halves.reshape(len(X), -1)]
        light = [(one - known.mean()) / contrast for one in light]
        return np.hstack([responses, *light])

    def patches(self, image, contrast, places=None):
        """Every patch, less its mean, over √(variance + (contrast/25)²), and where it is; cells by channel first."""
        around = np.pad(image, ((self.padding,) * 2, (self.padding,) * 2, (0, 0)))
        down = around.shape[0] - self.patch_size + 1
        across = around.shape[1] - self.patch_size + 1
        found = []
        for i in range(down) if places is None else places(down):
            for j in range(across) if places is None else places(across):
                cells = around[i : i + self.patch_size, j : j + self.patch_size].transpose(2, 0, 1).ravel()
                found.append((cells - cells.mean()) / np.sqrt(cells.var() + (0.04 * contrast) ** 2))
        return np.array(found), down, across

    def responses(self, images, bank, offsets, contrast):
        """Roots of the mean responses beyond the threshold, up and down, in each pool."""
        out = []
        for image in images:
            patches, down, across = self.patches(image, contrast)
            r = (patches @ bank - offsets).reshape(down, across, -1)
            up = np.maximum(r - self.threshold, 0)
            low = np.maximum(-r - self.threshold, 0)
            parts = []
            for rows in self.weights(down):
                for columns in self.weights(across):
                    weights = np.outer(rows, columns)
                    for one in (up, low):
                        parts.append(np.sqrt(np.average(one.reshape(down * across, -1), 0, weights.ravel())))
            out.append(np.concatenate(parts))
        return np.array(out)

    def weights(self, count):
        """How much each place of a line counts in each of its pools."""
        if not self.overlap:
            return [
                [float(at in range(*part.indices(count))) for at in range(count)]
                for part in pieces(count, self.pools)
            ]
        middles = [(2 * at + 1) * count / (2 * self.pools) - 0.5 for at in range(self.pools)]
        return [norm.pdf(np.arange(count), middle, self.overlap * count / self.pools) for middle in middles]

    def light(self, images):
        """The mean of each region and channel."""
        parts = []
        for rows in pieces(self.shape[0], self.means):
            for columns in pieces(self.shape[1], self.means):
                parts.append(images[:, rows, columns].mean(axis=(1, 2)))
        return np.hstack(parts)

    def bank(self, known, seed):
        """Filters (cells, filters) and offsets: random ones, or cluster centres of whitened patches of the images."""
        cells = self.patch_size**2 * self.shape[2]
        if not self.n_rounds:
            drawn = gaussians(seed, "filters", self.n_filters, cells)
            drawn = drawn - drawn.mean(axis=1, keepdims=True)
            return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).T, np.zeros(self.n_filters)
        images = known.reshape(len(known), *self.shape).astype(float)

        def lattice(count):
            return sorted({round(place) for place in np.linspace(0, count - 1, min(6, count))})

        found = [self.patches(image, known.std(), lattice)[0] for image in images]
        every = np.vstack(found)
        owner = np.repeat(np.arange(len(images)), [len(one) for one in found])
        values, vectors = np.linalg.eigh(np.cov(every.T, bias=True))
        whitener = vectors @ np.diag(1 / np.sqrt(np.maximum(values, 0) + 0.1)) @ vectors.T
        white = (every - every.mean(axis=0)) @ whitener
        white = white / np.linalg.norm(white, axis=1, keepdims=True)
        centres = gaussians(seed, "centres", self.n_filters, cells)
        centres = centres / np.linalg.norm(centres, axis=1, keepdims=True)
        for _ in range(self.n_rounds):
            nearest = (white @ centres.T).argmax(axis=1)
            for cluster in range(self.n_filters):
                inside = nearest == cluster
                if len(set(owner[inside])) >= self.least:
                    total = white[inside].sum(axis=0)
                    centres[cluster] = total / np.linalg.norm(total)
        return whitener @ centres.T, every.mean(axis=0) @ whitener @ centres.T


def pieces(count, parts):
    """Consecutive ranges, nearly equal."""
    edges = np.linspace(0, count, parts + 1).round().astype(int)
    return [slice(first, max(last, first + 1)) for first, last in pairwise(edges)]


# The ridge.


@dataclass(frozen=True)
class Fit:
    """The ridge of targets ±1 on features of unit mean square, with an intercept."""

    F: np.ndarray
    T: np.ndarray
    w: np.ndarray
    """What rows count."""
    unit: np.ndarray
    """The root of each feature's mean square."""

    @classmethod
    def of(cls, F, codes, classes, balanced=False, unit=None):
        """Take features and classes of rows; balanced: all classes count the same."""
        counts = np.bincount(codes, minlength=classes)
        w = len(codes) / (np.count_nonzero(counts) * counts[codes]) if balanced else np.ones(len(codes))
        if unit is None:
            unit = np.sqrt((w[:, None] * F**2).sum(axis=0) / w.sum())
            unit = np.where(unit > 0, unit, 1)
        return cls(F, 2 * np.eye(classes)[codes] - 1, w, unit)

    def decomposed(self):
        """Singular values and vectors of the centred, scaled features, and the means."""
        Z = self.F / self.unit
        middle = np.average(Z, axis=0, weights=self.w)
        root = np.sqrt(self.w)[:, None]
        return *np.linalg.svd(root * (Z - middle), full_matrices=False), middle, root

    def solve(self, alpha):
        """Weights of the features as they are (intercepts first), degrees of freedom, squared residuals."""
        U, d, V, middle, root = self.decomposed()
        target = np.average(self.T, axis=0, weights=self.w)
        W = V.T @ ((d / (d**2 + alpha))[:, None] * (U.T @ (root * (self.T - target))))
        freedom = 1 + (d**2 / (d**2 + alpha)).sum()
        residuals = self.T - target - (self.F / self.unit - middle) @ W
        return np.vstack([target - middle @ W, W / self.unit[:, None]]), freedom, (root**2 * residuals**2).sum()

    def gcv(self, alpha):
        """n·RSS/(n - freedom)²; endless where hardly any freedom is left."""
        _, freedom, rss = self.solve(alpha)
        n = self.w.sum()
        return n * rss / (n - freedom) ** 2 if n - freedom > 0.05 * n else np.inf


def best(score):
    """The λ with the lowest score, compared to four digits; of equal ones the largest."""
    return max(LAMBDAS, key=lambda alpha: (-float(f"{score(alpha):.3e}"), alpha))


def by_folds(F, codes, classes, fold, unit, balanced):
    """The squared error on each of two folds of the ridge of the other, by λ."""
    whole = Fit.of(F, codes, classes, balanced)

    def score(alpha):
        total = 0.0
        for own in (0, 1):
            learnt = fold == own
            some = Fit(F[learnt], whole.T[learnt], whole.w[learnt], unit)
            W = some.solve(alpha)[0]
            error = whole.T[~learnt] - F[~learnt] @ W[1:] - W[0]
            total += (whole.w[~learnt, None] * error**2).sum()
        return total

    return best(score)


def fold_of(X, folds=2):
    """A number below ``folds`` by a checksum of what is in a row: the last step of splitmix64 over its doubles."""
    whole = 2**64

    def mixed(word):
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % whole
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB % whole
        return word ^ (word >> 31)

    factors = [mixed(column + 1) for column in range(X.shape[1])]
    found = []
    for row in np.asarray(X, float) + 0.0:
        bits = [int(one) for one in row.view(np.uint64)]
        found.append(mixed(sum(bit * factor for bit, factor in zip(bits, factors, strict=True)) % whole) % folds)
    return np.array(found)


def discriminants(scores, codes, freedom, weights):
    """What turns ridge scores into discriminants: δ = (s - s̄)K - diag(PK) + log π (Hastie et al. 1995)."""
    classes = scores.shape[1]
    share = min(freedom / weights.sum(), 0.9)
    prior = np.array([weights[codes == k].sum() for k in range(classes)]) / weights.sum()
    means = [np.average(scores[codes == k], axis=0, weights=weights[codes == k]) for k in range(classes)]
    fresh = [(mean - share * (2 * np.eye(classes)[k] - 1)) / (1 - share) for k, mean in enumerate(means)]
    middle = prior @ np.array(fresh)
    P = (np.array(fresh) - middle) / 2
    K = np.linalg.solve(np.eye(classes) - P, np.diag(1 / prior)) / 2
    return lambda s: (s - middle) @ K - np.diag(P @ K) + np.log(prior)


def temperature(scores, codes, freedom, turn=lambda s: s):
    """The temperature at which rows' classes are likeliest, by scores that they would have if left out."""
    share = min(freedom / len(codes), 0.9)
    fresh = turn((scores - share * (2 * np.eye(scores.shape[1])[codes] - 1)) / (1 - share))

    def loss(t):
        return (logsumexp(fresh / t, axis=1) - fresh[np.arange(len(codes)), codes] / t).sum()

    return min(TEMPERATURES, key=loss)


@dataclass(frozen=True)
class Found:
    """A classifier: scores of new rows, λ, temperature, and the ridge behind it."""

    decide: object
    alpha: float
    temperature: float
    weights: np.ndarray
    freedom: float
    unit: np.ndarray
    features: object

    def probabilities(self, X):
        """The softmax of scores over the temperature."""
        return softmax(self.decide(X) / self.temperature, axis=1)


def ridge(X, y, names, maps=(linear,), seed=0, alpha="gcv", balanced=False, rule="ridge", known=None):
    """Everything together; ``known``: the rows that features are made from, if others."""
    codes = np.array([names.index(label) for label in y.tolist()])
    base = X if known is None else known

    def features(rows):
        return np.hstack([one(rows, base, seed) for one in maps])

    F = features(X)
    fit = Fit.of(F, codes, len(names), balanced)
    if alpha == "gcv":
        alpha = best(fit.gcv)
    elif alpha == "folds":
        alpha = by_folds(F, codes, len(names), fold_of(X), fit.unit, balanced)
    W, freedom, _ = fit.solve(alpha)
    scores = F @ W[1:] + W[0]
    turn = discriminants(scores, codes, freedom, fit.w) if rule == "discriminant" else lambda s: s
    warmth = temperature(scores, codes, freedom, turn)
    return Found(lambda rows: turn(features(rows) @ W[1:] + W[0]), alpha, warmth, W, freedom, fit.unit, features)


# A site's own models.


def own_models(sites, names, joint, rows):
    """Each site's weights: the ridge of what the joint scores leave over, as near as left-out rows advise."""
    left = {}
    for name, (X, y) in sites.items():
        codes = np.array([names.index(label) for label in y.tolist()])
        Z = joint.features(X) / joint.unit
        scores = joint.features(X) @ joint.weights[1:] + joint.weights[0]
        targets = 2 * np.eye(len(names))[codes] - 1
        left[name] = (codes, Z, (targets - scores) / (1 - min(joint.freedom / rows, 0.9)), targets)
    right = {name: np.array([left_out(*one, strength) for strength in STRENGTHS]) for name, one in left.items()}
    found = {}
    for name, (_, Z, R, _) in left.items():
        others = sum(right[other] for other in sites if other != name)
        count = sum(len(left[other][0]) for other in sites if other != name)
        total = right[name] + min(200, count) * others / count
        strength = max(one for one, hits in zip(STRENGTHS, total, strict=True) if hits >= total.max() - 1e-9)
        more = np.zeros_like(joint.weights)
        if strength < np.inf:
            fitted = Regression(alpha=strength, solver="svd").fit(Z, R)
            more = np.vstack([fitted.intercept_, fitted.coef_.T / joint.unit[:, None]])
        found[name] = (joint.weights + more, strength)
    return found


def left_out(codes, Z, R, targets, strength):
    """How many rows go into their class by the joint model and an own fit without the row."""
    right = 0
    for row, code in enumerate(codes):
        others = np.arange(len(codes)) != row
        score = targets[row] - R[row]
        if strength < np.inf:
            score = score + Regression(alpha=strength).fit(Z[others], R[others]).predict(Z[[row]])[0]
        right += score.argmax() == code
    return right


# With privacy: rows no longer than a bound, on columns as they are.


def shortened(X, clip):
    """Rows no longer than ``clip``: longer ones keep their direction."""
    return X * np.minimum(1, clip / np.linalg.norm(X, axis=1))[:, None]


def private_decision(F, codes, classes, alpha, rule):
    """The function that decides on features, by the ridge or by penalised discriminant analysis of short rows."""
    if rule == "ridge":
        fitted = Regression(alpha=alpha, solver="svd").fit(F, 2 * np.eye(classes)[codes] - 1)
        return fitted.predict
    means = np.array([F[codes == k].mean(axis=0) for k in range(classes)])
    within = np.cov((F - means[codes]).T, bias=True) + alpha / len(F) * np.eye(F.shape[1])
    inverse = np.linalg.inv(within)
    prior = np.bincount(codes) / len(codes)

    def decide(rows):
        gaps = [np.einsum("nd,de,ne->n", rows - mean, inverse, rows - mean) for mean in means]
        return np.log(prior) - 0.5 * np.array(gaps).T

    return decide

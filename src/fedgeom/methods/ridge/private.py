"""Ridge with differential privacy: one sum with a bound on what a row adds, and equations that stand the noise.

A row, shortened to the length ``clip`` and divided by it, is u; it adds w₀ to its class's count, w₁u to its class's sum
and w₂uuᵀ, once for all classes, with w₀² + w₁² + w₂² = 1: one row more or less moves all numbers together by at most 1.
These sums are all that a ridge on columns needs (its Gram matrix and its ties to the classes), and all that linear
discriminants need. Columns are taken as they are: their means and deviations would have to have noise as well. Fourier
features of a row, from columns as they are, are such a row themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import answers
from fedgeom.methods.ridge.features import FeatureContext, Fourier, LinearFeatures
from fedgeom.methods.ridge.messages import SumBounded
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.privacy.bounded_sums import BITS, in_whole_numbers, products, row_products, summed
from fedgeom.privacy.mechanism import SumNoise
from fedgeom.protocols.secure_sum.messages import SumResult
from fedgeom.protocols.site import Contribution, SummingPart

UNIT = 2 * BITS + 8
WEIGHTS = (round(0.3 * 2**UNIT), round(0.6 * 2 ** (UNIT - BITS)), round(0.74 * 2 ** (UNIT - 2 * BITS)))
"""What counts, rows and products, as whole numbers, are multiplied by: w₀, w₁ and w₂."""
BOUNDED = (LinearFeatures.name, Fourier.name)
"""The features that a row has by itself, without sums over rows."""
TEMPERATURE = 0.3
"""Scores of a ridge lie about ±1; how probabilities follow from them would be fitted to rows, and is fixed here."""


def check_private(settings: RidgeSettings) -> None:
    """Refuse settings of a ridge with privacy that need more than the one sum."""
    if privacy_of(settings) is None:
        return
    wrong = {
        "features": (tuple(one.name for one in settings.maps if one.name not in BOUNDED), ()),
        "personal": (settings.personal, False),
        "updatable": (settings.updatable, False),
        "balanced": (settings.balanced, False),
    }
    found = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
    if found:
        given = ", ".join(f"{name}={pair[0]!r}" for name, pair in found.items())
        known = " or ".join(f'"{name}"' for name in BOUNDED)
        wanted = ", ".join(
            f"{name}={known if name == 'features' else repr(pair[1])}" for name, pair in found.items()
        )
        raise InputError(f"Ridge with privacy and {given} given; wanted {wanted}")


class LocalFeatureContext(FeatureContext):
    """A ground on which no row has a part, not even by rounding, in the features of another one."""

    def products(self, rows: Floats, matrix: Floats) -> Floats:
        """Return rows·matrix, each row by itself."""
        return row_products(rows, matrix)


def ground_of(columns: int, seed: int, kind: type[FeatureContext] = FeatureContext) -> FeatureContext:
    """Return what features are made from: columns as they are, and the run's seed."""
    ones = np.ones(columns)
    return kind(columns, seed, (), np.zeros(columns), ones, ones)


def width_of(settings: RidgeSettings, columns: int) -> int:
    """Return how many features there are."""
    return sum(one.width(columns, ()) or 0 for one in settings.maps)


def features_of(settings: RidgeSettings, X: Floats, seed: int) -> Floats:
    """Return the features of rows, (n, features), f8; each row's are its own."""
    ground = ground_of(X.shape[1], seed, LocalFeatureContext)
    return np.hstack([np.asarray(one.transform(X, ground), np.float64) for one in settings.maps])


def bounds(classes: int, columns: int) -> dict[str, Any]:
    """Return what the noise of the sum follows from (`fedgeom.protocols.noise.sum_noise`)."""
    most = math.sqrt(sum((factor << (at * BITS)) ** 2 for at, factor in enumerate(WEIGHTS)))
    return {"sensitivity": most, "numbers": classes * (1 + columns) + columns * (columns + 1) // 2}


def bounded_sums(X: Floats, codes: Ints, classes: int, clip: float) -> Ints:
    """Return a site's counts and sums of each class, and the upper triangle of all products, (numbers,), i8."""
    whole = in_whole_numbers(X, clip)
    counts = np.bincount(codes, minlength=classes).astype(np.int64)
    sums = np.array([summed(whole[codes == at]) for at in range(classes)])
    gram = products(whole, whole)[np.triu_indices(X.shape[1])]
    return np.concatenate([counts * WEIGHTS[0], sums.ravel() * WEIGHTS[1], gram * WEIGHTS[2]])


def private_model(
    settings: RidgeSettings, total: Floats, names: Sequence[str], columns: int, seed: int, spread: float
) -> RidgeModel:
    """Solve the equations of a noisy sum, (numbers,), f8; ``spread`` is the deviation of its noise.

    The covariance has no eigenvalue below what noise alone would have (2s√d, Wigner 1955), and is held back by as much.
    """
    privacy = privacy_of(settings)
    classes = len(names)
    ground = ground_of(columns, seed)
    assert privacy is not None
    clip = privacy.clip
    columns = width_of(settings, columns)
    counts = np.maximum(total[:classes] / WEIGHTS[0], 1.0)
    ties = total[classes : classes * (1 + columns)].reshape(classes, columns) * (clip / 2**BITS / WEIGHTS[1])
    scale = clip**2 / 4**BITS / WEIGHTS[2]
    upper = np.triu_indices(columns)
    gram = np.zeros((columns, columns))
    gram[upper] = total[classes * (1 + columns) :] * scale
    gram.T[upper] = gram[upper]
    rows = float(counts.sum())
    least = 2 * (spread / WEIGHTS[0])
    means = ties / np.maximum(counts, least)[:, None]
    prior = counts / rows
    middle = ties.sum(axis=0) / rows
    between = (prior[:, None] * (means - middle)).T @ (means - middle)
    covariance = gram / rows - np.outer(middle, middle)
    if settings.rule == "discriminant":
        covariance = covariance - between
    edge = 2 * spread * scale * math.sqrt(columns) / rows
    values, vectors = np.linalg.eigh(covariance)
    pull = edge if isinstance(settings.alpha, str) else max(edge, settings.alpha / rows)
    inverse = (vectors / (np.maximum(values, edge) + pull)) @ vectors.T
    if settings.rule == "discriminant":
        weights = inverse @ (means - middle).T
        constants = np.log(prior) - 0.5 * np.einsum("cd,dc->c", means - middle, weights)
        temperature = 1.0
    else:
        weights = 2 * inverse @ (prior[:, None] * (means - middle)).T
        constants = 2 * prior - 1
        temperature = TEMPERATURE
    solved = np.vstack([constants - middle @ weights, weights])
    return RidgeModel.made(tuple(names), settings.maps, ground, solved, max(pull * rows, 1e-12), temperature)


def read_model(
    settings: RidgeSettings, result: SumResult, noise: SumNoise, names: Sequence[str], columns: int, seed: int
) -> RidgeModel:
    """Return the model that follows from a sum with noise."""
    return private_model(settings, noise.read(result.counts()), names, columns, seed, noise.spread)


class BoundedMemory(msgspec.Struct, kw_only=True):
    """Nothing is remembered."""


class BoundedGram(SummingPart[BoundedMemory]):
    """Adds the site's bounded sums, with noise."""

    name: ClassVar[str] = "bounded"

    @answers(SumBounded)
    def sum_bounded(self, ask: SumBounded) -> Contribution:
        """Add up counts, sums and products of shortened rows."""
        site: Any = self.site
        site.names.check_agreed(ask.classes)
        width = width_of(self.settings, site.data.shape[1])
        privacy = privacy_of(self.settings)
        found = bounds(len(ask.classes), width)
        assert privacy is not None
        site.check_size(found["numbers"])
        features = features_of(self.settings, site.table.X, site.seed)
        whole = bounded_sums(features, site.codes, len(ask.classes), privacy.clip)
        return self.site.contribute_noisy(ask, whole, sensitivity=found["sensitivity"])

    def model_from(self, result: SumResult) -> RidgeModel:
        """Make the model from the sum, after a look at whether it is the one that the sites added up."""
        site: Any = self.site
        site.sums.check_result(result, SumBounded)
        names = site.names.agreed
        columns = site.data.shape[1]
        noise = site.noising.noise(**bounds(len(names), width_of(self.settings, columns)))
        return read_model(self.settings, result, noise, names, columns, site.seed)

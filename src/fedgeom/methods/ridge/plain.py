"""The plain twin of Ridge: the same sums over tables in one place, without messages, masks or fixed point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.methods.ridge.core import (
    TEMPERATURES,
    Solution,
    class_weights,
    fold_numbers,
    packed_gram,
    solve,
    starts,
    surprise,
    turn_of,
    turned,
)
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.personal import OwnRidge, choose, evidence, own_ridge, settled
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.statistics import (
    PATCH_BITS,
    FeatureProblem,
    Fit,
    cluster_sums,
    column_moments,
    features_of,
    gram_parts,
    patch_sums,
    rows_of,
    tried_rows,
)
from fedgeom.protocols.fixed_point import to_fixed, to_wide


def pooled_ridge(
    settings: RidgeSettings, sites: Sequence[SiteData], seed: int
) -> tuple[RidgeModel, dict[str, dict[str, Any]]]:
    """Return the ridge classifier of all sites' rows, and what each site has beside it.

    Every quantity that crosses from one to another is a sum.
    """
    names = settings.classes or tuple(sorted({str(one) for site in sites for one in site.classes.tolist()}))
    place = {name: at for at, name in enumerate(names)}
    codes = {s.name: np.array([place[str(label)] for label in s.y.tolist()], np.int64) for s in sites}

    def total(term: Callable[[SiteData], Floats]) -> Floats:
        return np.asarray(np.sum([term(site) for site in sites], axis=0), np.float64)

    plan = FeatureProblem(settings, seed, (1, 1), sites[0].shape[1], len(names))
    fit = _learn(plan, codes, total)
    ground = fit.finished(plan)
    weights = class_weights(fit.class_counts()) if settings.balanced else None

    def gram(site: SiteData, fold: int) -> Floats:
        own = (
            fold_numbers(rows_of(site), settings.folds) == fold if settings.folds > 1 else np.ones(len(site), bool)
        )
        features = features_of(rows_of(site)[own], plan, ground)
        return packed_gram(features, codes[site.name][own], plan.classes, plan.width, weights)

    parts, at = gram_parts(settings, plan.width, plan.classes), starts(plan.width, plan.classes)
    vectors = []
    for fold in range(settings.folds):
        whole = total(lambda s: gram(s, fold))  # noqa: B023  # it is called in the same turn of the loop
        vectors += [whole[at[first] : at[last]] for first, last in parts[: len(parts) // settings.folds]]
    solved = solve(vectors, parts, plan.width, plan.classes, settings.alpha)
    discriminant = settings.rule == "discriminant"
    by = turn_of(vectors, parts, solved.weights, solved.freedom) if discriminant else None
    model = RidgeModel.made(names, settings.maps, ground, solved.weights, solved.alpha, 1.0)

    def losses(site: SiteData) -> Floats:
        tried = tried_rows(rows_of(site), fit.rows())
        scores = model.decision_function(rows_of(site)[tried])
        return surprise(scores, codes[site.name][tried], solved.freedom, fit.rows(), by)

    best = TEMPERATURES[int(np.argmin(total(losses)))]
    joint = RidgeModel.made(names, settings.maps, ground, turned(solved.weights, by), solved.alpha, best)
    if not settings.personal:
        return joint, {}

    def ridges(site: SiteData) -> OwnRidge:
        rows, share = rows_of(site), solved.freedom / max(fit.rows(), 1.0)
        scores = joint.decision_function(rows)
        return own_ridge(joint.features(rows), solved.scale, scores, codes[site.name], share)

    return joint, _settle({site.name: ridges(site) for site in sites}, codes, solved)


def _learn(
    plan: FeatureProblem, codes: dict[str, Ints], total: Callable[[Callable[[SiteData], Floats]], Floats]
) -> Fit:
    """Make the features from sums over the sites."""
    fit, conv = Fit(), plan.settings.conv
    fit.take(to_wide(total(lambda s: column_moments(rows_of(s), codes[s.name], plan.classes)), sites=1), plan)
    if conv is not None:
        fit.take(
            to_fixed(total(lambda s: patch_sums(rows_of(s), fit, plan)), fraction_bits=PATCH_BITS, sites=1), plan
        )
        for _ in range(conv.rounds):
            found = total(lambda s: np.column_stack(cluster_sums(rows_of(s), fit, plan)))
            images, sums = found[:, 0].astype(np.int64), found[:, 1:]
            fit.take(np.concatenate([images, images > 0]).astype(np.int64).view(np.uint64), plan)
            assert fit.kept is not None
            fit.take(to_fixed(sums[fit.kept.numpy()], fraction_bits=PATCH_BITS, sites=1), plan)
    return fit


def _settle(own: dict[str, OwnRidge], codes: dict[str, Ints], solved: Solution) -> dict[str, dict[str, Any]]:
    """Let every site choose by its own evidence and everybody's, and return the weights of its own model."""
    told = {name: evidence(one, codes[name]) for name, one in own.items()}
    everybody, found = np.sum(list(told.values()), axis=0), {}
    for name, one in own.items():
        strength = choose(told[name], everybody)
        intercept, weights = one.weights(strength)
        added = np.vstack([intercept, weights / solved.scale[:, None]])
        found[name] = settled(solved.weights + added, strength)
    return found

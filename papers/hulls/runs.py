"""Secure runs of the hulls and moments, each checked against its plain run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
from fedgeom.methods.hulls.core import Classifier, fit_groups
from papers.common import Floats, Labels, Results
from papers.hulls.plain import PlainModel, plain

RESULTS = Results(Path(__file__).parent / "results")


def require(condition: bool, claim: str) -> None:
    """Stop when a claim that the tables rest on does not hold, also under ``python -O``."""
    if not condition:
        raise AssertionError(claim)


@dataclass(frozen=True)
class Federated:
    """A finished secure run of the hulls, already found equal to its plain run."""

    run: fedgeom.Run
    names: tuple[str, ...]
    """The label that most of a group's hulls have at their sites, the first on a tie."""
    C: float

    def predict(self, X: Floats) -> Labels:
        """FLP: the Poincaré SVM of the run."""
        return np.asarray(np.array(self.names)[self.run.model.predict(X)])

    def predict_flat(self, X: Floats) -> Labels:
        """FLE: a Euclidean SVM on the same decoded hull points."""
        svc = fit_groups(decoded_groups(self.run), EuclideanSVC(self.C))
        return np.asarray(np.array(self.names)[svc.predict(X)])


def run_hulls(method: fedgeom.Hulls, sites: Sequence[fedgeom.SiteData], seed: int) -> Federated:
    """Run with keys, masks and codes, and make sure that the plain run gives the same to the last digit."""
    run = fedgeom.run(method, sites, seed=seed)
    require(not run.lost, f"sites were lost: {run.lost}")
    parts = [(_disc(run, site), site.y.astype(str)) for site in sites]
    check_twin(run, plain_twin(method, parts, run.metrics["radius"], run.metrics["classes"], seed))
    return Federated(run, majority_names(run), method.C)


def plain_twin(
    method: fedgeom.Hulls, parts: Sequence[tuple[Floats, Labels]], radius: float, classes: int, seed: int
) -> PlainModel:
    """Compute on pooled data what `run_hulls` computes from masked messages."""
    classifier: Classifier = PoincareSVC(
        C=method.C, curvature=method.curvature, pairs=method.n_pairs, as_published=method.as_published
    )
    return plain(
        parts,
        epsilon=method.epsilon,
        radius=radius,
        n_classes=classes,
        trim=method.trim,
        how=method.grouping,
        classifier=classifier,
        c=method.curvature,
        seed=seed,
    )


def check_twin(run: fedgeom.Run, model: PlainModel) -> None:
    """Require the same hulls, groups and hyperplanes, bit for bit."""
    bins, of = run.artifacts["hull_bins"], run.artifacts["hull_of_point"]
    groups = run.artifacts["group_of_hull"].tolist()
    decoded = sorted((group, bins[of == hull].tolist()) for hull, group in enumerate(groups))
    expected = sorted(
        (group, hull.tolist()) for group, hull in zip(model.members.tolist(), model.hulls, strict=True)
    )
    require(decoded == expected, "the decoded hulls or their groups differ from the plain run's")
    pairs = [
        (run.model.reference, model.classifier.reference_),
        (run.model.normal, model.classifier.coef_),
        (run.model.platt, model.classifier.platt_),
    ]
    require(all(np.array_equal(a, b) for a, b in pairs), "the hyperplanes differ from the plain run's")


def decoded_groups(run: fedgeom.Run) -> list[Floats]:
    """Give the distinct hull points of each group, as the coordinator decoded them."""
    bins, points = run.artifacts["hull_bins"], run.artifacts["hull_points"]
    group = run.artifacts["group_of_hull"][run.artifacts["hull_of_point"]]
    firsts = [np.unique(bins[group == g], return_index=True)[1] for g in range(run.model.classes)]
    return [points[group == g][first] for g, first in enumerate(firsts)]


def majority_names(run: fedgeom.Run) -> tuple[str, ...]:
    """Name each group by what most sites call it."""
    called: list[list[str]] = [[] for _ in range(run.model.classes)]
    for result in run.local.values():
        for label, group in result["names"].items():
            called[group].append(label)
    return tuple(max(sorted(set(labels)), key=labels.count) for labels in called)


def run_moments(method: fedgeom.Moments, sites: Sequence[fedgeom.SiteData]) -> Any:
    """Run the moments with the secure sum; its twin on pooled rows may differ by rounding to fixed point only."""
    model, twin = fedgeom.run(method, sites).model, method.plain(sites).model
    require(model.names == twin.names, "the sites agreed on other names than the pooled labels")
    for name in ("log_priors", "means", "covariances", "centroids"):
        close = np.allclose(getattr(model, name), getattr(twin, name), rtol=1e-4, atol=1e-5)
        require(close, f"the secure {name} differ from the plain ones by more than rounding")
    return model


def _disc(run: fedgeom.Run, site: fedgeom.SiteData) -> Floats:
    """Give the site's rows as points of the disc."""
    points: Floats = run.model.for_site(run.local[site.name]).to_disc(site.X)
    return points

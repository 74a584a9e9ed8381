"""A site's own ridge around the joint one: what the joint solution leaves over at a site is fitted there, held back.

With features Z scaled as in the joint ridge, and R what the joint scores leave of the targets ±1, both centred at the
site,

    V = argmin ‖R - Z·V‖² + τ·‖V‖²,

is added to the joint weights. τ = ∞ is the joint model. Which τ is right, rows tell that a fit did not see: for ridge,
leaving out one row after the other has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import answers
from fedgeom.methods.ridge.core import neighbour_groups
from fedgeom.methods.ridge.messages import SolutionTaken, SumPersonalEvidence, TakePersonalEvidence
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.protocols.site import Contribution, SummingPart

STRENGTHS: tuple[float, ...] = (*(10.0 ** (step / 2) for step in range(11)), np.inf)
"""The τ that are tried: 1 to 10⁵, and ∞."""
BORROWED = 200.0
"""How many rows' worth of the others' evidence a site adds to its own."""


def left_over(scores: Floats, codes: Ints, share: float) -> Floats:
    """Return what the joint scores leave of the targets, (rows, classes), as if they had not seen these rows.

    scores (rows, classes), codes (rows,). ``share`` is the mean leverage of a row, degrees of freedom ÷ rows: left out,
    a row's score would be (s - h·y)/(1 - h), as generalised cross-validation has it.
    """
    targets = signs(codes, scores.shape[1])
    return (targets - scores) / (1.0 - min(share, 0.9))


def signs(codes: Ints, classes: int) -> Floats:
    """Return targets, (rows, classes): 1 for a row's class and -1 for the others."""
    targets = np.full((len(codes), classes), -1.0)
    targets[np.arange(len(codes)), codes] = 1.0
    return targets


@dataclass(frozen=True, eq=False)
class PersonalRidge:
    """All ridges of a site's rows, one for each τ, from one decomposition."""

    features: Floats
    """(rows, features), f8: scaled by the joint scale."""
    left: Floats
    """(rows, classes), f8: what the joint model leaves over."""

    @cached_property
    def centred(self) -> tuple[Floats, Floats]:
        """The features and what is left over, less their means."""
        return self.features - self.features.mean(axis=0), self.left - self.left.mean(axis=0)

    @cached_property
    def basis(self) -> tuple[Floats, Floats]:
        """The left singular vectors of the centred features, (rows, rank), and squared singular values, (rank,)."""
        Z, _ = self.centred
        wide = Z.shape[0] < Z.shape[1]
        values, vectors = np.linalg.eigh(Z @ Z.T if wide else Z.T @ Z)
        kept = values > 1e-10 * max(float(values[-1]), 1e-300) if len(values) else np.zeros(0, bool)
        values = values[kept]
        vectors = vectors[:, kept]
        return (vectors if wide else (Z @ vectors) / np.sqrt(values)), values

    def left_out(self, strength: float) -> Floats:
        """Return the score that each row would be given by a fit without it, (rows, classes): to add to the joint one.

        Exact but for the centring, whose share is 1/rows of each row's leverage.
        """
        if np.isinf(strength):
            return np.zeros(self.left.shape)
        U, values = self.basis
        _, R = self.centred
        shrunk = values / (values + strength)
        fitted = (U * shrunk) @ (U.T @ R) + self.left.mean(axis=0)
        leverage = np.minimum((U**2) @ shrunk + 1.0 / len(U), 1 - 1e-9)[:, None]
        return np.asarray((fitted - leverage * self.left) / (1 - leverage))

    def weights(self, strength: float) -> tuple[Floats, Floats]:
        """Return intercepts, (classes,), and weights of the scaled features, (features, classes), to add."""
        if np.isinf(strength) or not len(self.left):
            return np.zeros(self.left.shape[1]), np.zeros((self.features.shape[1], self.left.shape[1]))
        U, values = self.basis
        Z, R = self.centred
        found = Z.T @ (U @ ((U.T @ R) / (values + strength)[:, None]))
        return self.left.mean(axis=0) - self.features.mean(axis=0) @ found, found


def evidence(own: PersonalRidge, codes: Ints, least: int = 1) -> Floats:
    """Return, for each τ, how many rows a fit without them puts into their class, and how many rows there are.

    Where policies have floors, rows are put into groups of at least ``least`` neighbours by how far their class is
    ahead; a group with mean m and deviation s counts as many rows as a Gaussian has above 0, Φ(m/s).

    (strengths + 1,), f8; codes (rows,).
    """
    found = np.zeros(len(STRENGTHS) + 1)
    if len(codes) < max(least, 2):
        return found
    joint = signs(codes, own.left.shape[1]) - own.left
    scores = (joint + own.left_out(one) for one in STRENGTHS)
    if least > 1:
        found[:-1] = [_right_in_groups(some, codes, least) for some in scores]
    else:
        found[:-1] = [(some.argmax(axis=1) == codes).sum() for some in scores]
    found[-1] = len(codes)
    return found


def _right_in_groups(scores: Floats, codes: Ints, least: int) -> float:
    """Return how many rows groups of neighbours have in their class, each as a Gaussian of its mean and deviation."""
    from scipy.special import ndtr  # slow to import

    places = np.arange(len(codes))
    others = scores.copy()
    others[places, codes] = -np.inf
    ahead = np.sort(scores[places, codes] - others.max(axis=1))
    first, sizes = neighbour_groups(len(ahead), least)
    mean = np.add.reduceat(ahead, first) / sizes
    spread = np.sqrt(np.maximum(np.add.reduceat(ahead**2, first) / sizes - mean**2, 1e-300))
    return float(sizes @ ndtr(mean / spread))


def choose(own: Floats, everybody: Floats, added: Floats | None = None) -> float:
    """Return the τ for a site, by its own evidence and some rows' worth of the others'; of equal ones the largest.

    A small site follows the others, a large one itself. own and everybody (strengths + 1,), as `evidence` has them;
    ``added`` is what the site added to everybody's, where that is not its own.
    """
    others = everybody - (own if added is None else added)
    rate = others[:-1] / max(others[-1], 1.0)
    found = own[:-1] + min(BORROWED, max(others[-1], 0.0)) * rate
    best = np.flatnonzero(found >= found.max() - 1e-9)
    return STRENGTHS[int(best[-1])]


def own_ridge(
    features: npt.NDArray[Any], scale: Floats, scores: Floats, codes: Ints, share: float
) -> PersonalRidge:
    """Return a site's ridges; features (rows, features) as they are, scale (features,), scores (rows, classes)."""
    return PersonalRidge(np.asarray(features, np.float64) / scale, left_over(scores, codes, share))


def settled(weights: Floats, strength: float) -> dict[str, Any]:
    """Return what a site has in the end: its own weights and τ; no τ where it keeps the joint model."""
    return {"weights": weights} | ({} if np.isinf(strength) else {"strength": strength})


class PersonalMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: its own evidence, and what it adds to the joint weights."""

    evidence: Array | None = None
    """(strengths + 1,), f8: of its rows one by one."""
    added: Array | None = None
    """(strengths + 1,), f8: what it added to everybody's, of groups of rows where policies have floors."""
    strength: float = 0.0
    """The τ that the site chose; 0 before it has."""
    weights: Array | None = None
    """(features + 1, classes), f8: intercepts and weights of the site's own model."""


class PersonalPart(SummingPart[PersonalMemory]):
    """Adds up how well personal models do, and makes the site's own; nothing of that one leaves."""

    name: ClassVar[str] = "personal"

    @answers(SumPersonalEvidence)
    def sum_evidence(self, ask: SumPersonalEvidence) -> Contribution:
        """Add how many rows each τ puts into their class when they are left out."""
        self._check_wanted()
        site: Any = self.site
        model = site.joint_model(1.0)
        ridges = self._ridges(model)
        own = evidence(ridges, site.codes)
        added = evidence(ridges, site.codes, site.plan.floors[1])
        self.memory.evidence = Array.of(own)
        self.memory.added = Array.of(added)
        return self.contribute(ask, added)

    @answers(TakePersonalEvidence)
    def settle(self, ask: TakePersonalEvidence) -> SolutionTaken:
        """Choose τ by everybody's evidence and make the site's own model."""
        self._check_wanted()
        model: RidgeModel | None = self.site.handed.model
        own = self.memory.evidence
        added = self.memory.added
        if own is None or added is None or model is None:
            raise ProtocolError("the site was asked to settle before it gave its evidence and had the joint model")
        self.site.sums.check_result(ask.evidence, SumPersonalEvidence)
        if ask.evidence.total.shape != (len(STRENGTHS) + 1,):
            raise ProtocolError(f"the evidence is not {len(STRENGTHS) + 1} numbers")
        strength = choose(own.numpy(), ask.evidence.reals(SumPersonalEvidence), added.numpy())
        intercept, weights = self._ridges(model).weights(strength)
        more = np.vstack([intercept, weights / self._scale()[:, None]])
        self.memory.strength = strength
        self.memory.weights = Array.of(model.weights + more)
        return SolutionTaken()

    def _check_wanted(self) -> None:
        if not self.settings.personal:
            raise ProtocolError("these terms have no personal models")

    def _scale(self) -> Floats:
        found = self.site.memory.solution.scale
        assert found is not None
        scale: Floats = found.numpy()
        return scale

    def _ridges(self, model: RidgeModel) -> PersonalRidge:
        """Return the site's ridges around the joint model."""
        site: Any = self.site
        fit = site.memory.fit
        share = site.memory.solution.freedom / max(fit.rows(), 1.0)
        scores = model.class_scores(site.rows)
        return own_ridge(model.features(site.rows), self._scale(), scores, site.codes, share)

    def result(self) -> dict[str, Any]:
        """Return the weights of the site's own model, where there is one, and how strongly they were held back."""
        own = self.memory.weights
        return {} if own is None else settled(own.numpy(), self.memory.strength)

    def own_model(self) -> RidgeModel | None:
        """Return the site's own model; None before it has settled."""
        joint = self.site.handed.model
        own = self.memory.weights
        return None if joint is None or own is None else joint.for_site({"weights": own.numpy()})

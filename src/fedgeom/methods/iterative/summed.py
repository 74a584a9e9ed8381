"""How what sites send goes through a sum: parameters packed, two or three to a word, and all else at 64 bits.

A site that sends a model sends, packed, by how much it differs from the one that all were given: that is small, so it
is written finely. Its weight is divided by the whole of the weights, which all sites know before (the number of all
rows, from a sum that they check, or the factors in the question), so that no sum of honest sites overflows. What counts
or describes rows (numbers of steps, running means) is neither small nor many, and stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedgeom.arrays import Bools, Floats, Words
from fedgeom.errors import ContractError
from fedgeom.methods.iterative.tree import SEPARATOR, State
from fedgeom.protocols.fixed_point import SLACK, Packing, from_fixed, to_fixed
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.secure_sum.rules import ROOM, beyond_bound

if TYPE_CHECKING:
    from fedgeom.methods.iterative.settings import TrainingRule

FRACTION_BITS = SumQuestion.fraction_bits
MODEL = "model"


@dataclass(frozen=True)
class SummedMean:
    """What a sum tells of what the sites sent."""

    flat: Floats
    """(numbers,): the weighted mean."""
    figures: Floats
    """What else was added up, such as losses on rows set aside."""
    cut: int
    """How many numbers of all sites were cut off."""
    weight: float = 1.0
    """What the sites' weights add up to; 0 where none had anything to train on: the mean is then what was given."""


@dataclass(frozen=True)
class Summed:
    """The form in which one algorithm's vectors are added up; both halves make it from the terms."""

    like: State
    """A tree shaped like what a site sends."""
    packing: Packing | None
    """None: all numbers at 64 bits."""
    statistics: tuple[str, ...] = ()
    """The model's arrays that describe rows."""
    sends_changes: bool = False

    @classmethod
    def of(cls, rule: TrainingRule, like: State, statistics: Iterable[str]) -> Summed:
        """Return the form that a rule's settings say."""
        return cls(like, rule.packing, tuple(statistics), rule.sends_changes)

    @cached_property
    def packed(self) -> Bools:
        """Which numbers are packed, (numbers,): those in arrays of real numbers that describe no rows."""
        parts = [np.zeros(0, bool)]
        described = {f"{MODEL}{SEPARATOR}{name}" for name in self.statistics}
        for path, leaf in self.like.leaves().items():
            small = isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and path not in described
            parts.append(np.full(np.size(leaf), small and self.packing is not None))
        return np.concatenate(parts)

    @property
    def _wide(self) -> int:
        return int(np.count_nonzero(~self.packed))

    def length(self, figures: int) -> int:
        """Return how many words a site adds to the sum, beside so many figures."""
        if self.packing is None:
            return len(self.packed) + 1 + figures
        return self.packing.length(len(self.packed) - self._wide) + self._wide + 1 + figures + 1

    def write(
        self, sent: State, given: State, weight: float, whole: float, figures: Floats, *, sites: int
    ) -> tuple[Words, int]:
        """Return one site's words, and how many of its numbers were cut off.

        ``whole`` is at least what the weights of any ``sites`` sites add up to.
        """
        flat = sent.flat()
        options = {"fraction_bits": FRACTION_BITS, "sites": sites}
        if flat.shape != self.packed.shape:
            raise ContractError(
                f"{flat.size} numbers are sent; the algorithm says that there are {self.packed.size}"
            )
        if self.packing is None:
            return to_fixed(np.concatenate([weight * flat, [weight], figures]), **options), 0
        flat = flat - self._base(given)
        words, cut = self.packing.write(flat[self.packed], share=weight / _steady(whole), sites=sites)
        rest = np.concatenate([weight * flat[~self.packed], [weight], figures, [float(cut)]])
        return np.concatenate([words, to_fixed(rest, **options)]), cut

    def read(self, total: Words, given: State, whole: float) -> SummedMean:
        """Return the mean, and what else was summed, from the sum of the sites' words."""
        numbers = len(self.packed)
        wide = self._wide
        if self.packing is None:
            values = from_fixed(total, fraction_bits=FRACTION_BITS)
            weight = float(values[numbers])
            return SummedMean(values[:numbers] / (weight or 1.0), values[numbers + 1 :], 0, weight)
        words = self.packing.length(numbers - wide)
        rest = from_fixed(total[words:], fraction_bits=FRACTION_BITS)
        weight = 0.0
        weight = float(rest[wide])
        flat = np.empty(numbers)
        flat[self.packed] = self.packing.read(total[:words], numbers - wide) * (_steady(whole) / (weight or 1.0))
        flat[~self.packed] = rest[:wide] / (weight or 1.0)
        return SummedMean(flat + self._base(given), rest[wide + 1 : -1], int(np.rint(rest[-1])), weight)

    def check(self, found: SummedMean, total: Words, given: State, whole: float, sites: int) -> None:
        """Raise `ProtocolError` where a sum is larger than sites within their bounds can make it.

        Packed numbers are at most ``max_abs_change`` times the sites' shares, which add up to the weight over the whole
        of the weights; all others, and the weight itself, have the room of a sum of 64 bits.
        """
        words = 0 if self.packing is None else self.packing.length(len(self.packed) - self._wide)
        rest = np.abs(total[words:].view(np.int64) // 2)  # halved: the smallest number has no opposite
        if (rest >= ROOM // 2).any() or found.weight < 0:
            raise beyond_bound(f"the sum of {sites} sites' models has numbers beyond what a sum has room for")
        if self.packing is None:
            return
        if found.weight > _steady(whole) * (1 + SLACK):
            raise beyond_bound(
                f"the weights of {sites} sites add up to {found.weight:.6g}; they are at most {whole:.6g}"
            )
        change = np.abs((found.flat - self._base(given))[self.packed])
        slack = self.packing.error(sites) * _steady(whole) / (found.weight or 1.0)
        most = self.packing.largest * (1 + SLACK) + slack
        if len(change) and float(change.max()) > most:
            wrong = int(np.count_nonzero(change > most))
            raise beyond_bound(
                f"the mean of {sites} sites' models changed by more than max_abs_change = {self.packing.largest:g} in "
                f"{wrong} of {len(change)} numbers (by up to {change.max():.6g}), which no site within it can cause"
            )

    def mean(self, vectors: Iterable[State], weights: Floats, given: State, whole: float) -> SummedMean:
        """Return the mean of what sites sent, rounded site by site exactly as a secure sum rounds it.

        weights (sites,); ``whole`` is their sum, or what is known of it.
        """
        total: Words | None = None
        for sent, weight in zip(vectors, weights.tolist(), strict=True):
            words, _ = self.write(sent, given, weight, whole, np.zeros(0), sites=len(weights))
            total = words if total is None else total + words
        assert total is not None
        return self.read(total, given, whole)

    def _base(self, given: State) -> Floats | float:
        """Return what is taken off before the sum: the model that all were given, where models are sent."""
        if self.sends_changes or MODEL not in self.like:
            return 0.0
        base = (self.like.zeros() | {MODEL: given[MODEL]}).flat()
        base[~self.packed] = 0.0
        return np.rint(base * 2.0**FRACTION_BITS) / 2.0**FRACTION_BITS


def _steady(whole: float) -> float:
    """Return a number without its last digits, so that two ways of computing the same have the same sums.

    For the same reason the model that is taken off is rounded: what differs by 10⁻¹⁶ must not show in what follows.
    """
    return float(np.float32(whole))


def combined(
    rule: TrainingRule,
    form: Summed,
    sent: Sequence[State],
    weights: Floats,
    given: State,
    whole: float = 0.0,
) -> SummedMean:
    """Combine what sites sent; where a rule needs only sums, as a secure sum of the same would be rounded.

    weights (sites,); ``whole``: what those of all sites add up to, where it is known.
    """
    matrix = np.array([one.flat() for one in sent])
    chosen = rule.combine_rule
    inside = weights > 0  # who had nothing to train on has no say
    if not inside.any():
        return SummedMean(matrix[0], np.zeros(0), 0, 0.0)
    if not chosen.sums_only:
        return SummedMean(chosen(matrix[inside], weights[inside]), np.zeros(0), 0, float(weights.sum()))
    weights = chosen.weights_of(matrix, weights)
    return form.mean(sent, weights, given, max(whole, math.fsum(weights.tolist())))

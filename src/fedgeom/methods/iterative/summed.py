"""How what sites send goes through a sum: parameters packed, two or three to a word, and all else at 64 bits.

A site that sends a model sends, packed, by how much it differs from the one that all were given: that is small, so it
is written finely. Its weight is divided by the whole of the weights, which all sites know before (the number of all
rows, from a sum that they check, or the factors in the question), so that no sum of honest sites overflows. What counts
or describes rows (numbers of steps, running means) is neither small nor many, and stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Words
from fedgeom.errors import ContractError
from fedgeom.federation.messages import roomy_words
from fedgeom.methods.aggregation import Aggregation
from fedgeom.methods.iterative.tree import SEPARATOR, Leaf, State, Tree, converted, grow
from fedgeom.protocols.fixed_point import PIECE, SLACK, Packing, from_fixed, to_fixed
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.secure_sum.rules import ROOM, beyond_bound

if TYPE_CHECKING:
    from fedgeom.methods.iterative.settings import TrainingRule

FRACTION_BITS = SumQuestion.fraction_bits
MODEL = "model"


@dataclass(frozen=True)
class SummedMean:
    """What a sum tells of what the sites sent."""

    mean: State
    """The weighted mean."""
    figures: Floats
    """What else was added up, such as losses on rows set aside."""
    cut: int
    """How many numbers of all sites were cut off."""
    weight: float = 1.0
    """What the sites' weights add up to; 0 where none had anything to train on: the mean is then what was given."""
    largest_change: float = 0.0
    """By how much a packed number changed at most."""


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
    def packed(self) -> frozenset[str]:
        """The paths whose numbers are packed: arrays of real numbers that describe no rows."""
        if self.packing is None:
            return frozenset()
        described = {f"{MODEL}{SEPARATOR}{name}" for name in self.statistics}
        leaves = self.like.leaves().items()
        real = {path for path, leaf in leaves if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"}
        return frozenset(real - described)

    @cached_property
    def numbers(self) -> int:
        """How many numbers a site sends."""
        return self.like.size

    @cached_property
    def _wide(self) -> int:
        return sum(np.size(leaf) for path, leaf in self.like.leaves().items() if path not in self.packed)

    @property
    def _words(self) -> int:
        """How many words the packed numbers take."""
        return 0 if self.packing is None else self.packing.length(self.numbers - self._wide)

    def length(self, figures: int) -> int:
        """Return how many words a site adds to the sum, beside so many figures."""
        return self._words + self._wide + 1 + figures + (self.packing is not None)

    def write(
        self, sent: State, given: State, weight: float, whole: float, figures: Floats, *, sites: int
    ) -> tuple[Words, int]:
        """Return one site's words, and how many of its numbers were cut off.

        ``whole`` is at least what the weights of any ``sites`` sites add up to.
        """
        leaves = sent.leaves()
        options = {"fraction_bits": FRACTION_BITS, "sites": sites}
        if sent.size != self.numbers:
            raise ContractError(f"{sent.size} numbers are sent; the algorithm says that there are {self.numbers}")
        wide = [
            weight * np.ravel(leaf).astype(np.float64) for path, leaf in leaves.items() if path not in self.packed
        ]
        if self.packing is None:
            return to_fixed(np.concatenate([*wide, [weight], figures]), **options), 0
        packed = {path: leaf for path, leaf in leaves.items() if path in self.packed}
        found = roomy_words(self.length(len(figures)))
        words = found[: self._words]
        cut = self.packing.write_into(
            words, self._changes(packed, given), share=weight / _steady(whole), sites=sites
        )
        found[self._words :] = to_fixed(np.concatenate([*wide, [weight], figures, [float(cut)]]), **options)
        return found, cut

    def read(self, total: Words, given: State, whole: float) -> SummedMean:
        """Return the mean, and what else was summed, from the sum of the sites' words."""
        wide = self._wide
        rest = from_fixed(total[self._words :], fraction_bits=FRACTION_BITS)
        weight = float(rest[wide])
        factor = _steady(whole) / (weight or 1.0)
        bases = self._bases(given)
        found: dict[str, Leaf] = {}
        largest = 0.0
        taken = 0  # of the packed numbers
        read = 0  # of the others
        for path, leaf in self.like.leaves().items():
            size = int(np.size(leaf))
            if path not in self.packed:
                found[path] = converted((rest[read : read + size] / (weight or 1.0)).reshape(np.shape(leaf)), leaf)
                read += size
                continue
            assert self.packing is not None
            mean = np.empty(np.shape(leaf), np.asarray(leaf).dtype)
            flat = mean.reshape(-1)
            for start in range(0, size, PIECE):
                stop = min(start + PIECE, size)
                piece = self.packing.read_some(total[: self._words], taken + start, taken + stop)
                piece *= factor
                largest = max(largest, float(piece.max()), -float(piece.min()))
                if path in bases:
                    piece += _rounded(bases[path][start:stop])
                flat[start:stop] = piece
            found[path] = mean
            taken += size
        figures = rest[wide + 1 :] if self.packing is None else rest[wide + 1 : -1]
        cut = 0 if self.packing is None else int(np.rint(rest[-1]))
        return SummedMean(grow(found), figures, cut, weight, largest)

    def check(self, found: SummedMean, total: Words, given: State, whole: float, sites: int) -> None:
        """Raise `ProtocolError` where a sum is larger than sites within their bounds can make it.

        Packed numbers are at most ``max_abs_change`` times the sites' shares, which add up to the weight over the whole
        of the weights; all others, and the weight itself, have the room of a sum of 64 bits.
        """
        rest = np.abs(total[self._words :].view(np.int64) // 2)  # halved: the smallest number has no opposite
        if (rest >= ROOM // 2).any() or found.weight < 0:
            raise beyond_bound(f"the sum of {sites} sites' models has numbers beyond what a sum has room for")
        if self.packing is None:
            return
        if found.weight > _steady(whole) * (1 + SLACK):
            raise beyond_bound(
                f"the weights of {sites} sites add up to {found.weight:.6g}; they are at most {whole:.6g}"
            )
        slack = self.packing.error(sites) * _steady(whole) / (found.weight or 1.0)
        if found.largest_change > self.packing.largest * (1 + SLACK) + slack:
            raise beyond_bound(
                f"the mean of {sites} sites' models changed by up to {found.largest_change:.6g}, more than "
                f"max_abs_change = {self.packing.largest:g}, which no site within it can cause"
            )

    def mean(self, vectors: Iterable[State], weights: Floats, given: State, whole: float) -> SummedMean:
        """Return the mean of what sites sent, rounded site by site exactly as a secure sum rounds it.

        weights (sites,); ``whole`` is their sum, or what is known of it.
        """
        total: Words | None = None
        for sent, weight in zip(vectors, weights.tolist(), strict=True):
            words, _ = self.write(sent, given, weight, whole, np.zeros(0), sites=len(weights))
            if total is None:
                total = words
            else:
                total += words
        assert total is not None
        return self.read(total, given, whole)

    def _bases(self, given: State) -> dict[str, npt.NDArray[Any]]:
        """Return what is taken off before the sum, by path: the model that all were given, where models are sent."""
        if self.sends_changes or MODEL not in self.like:
            return {}
        return {path: np.ravel(leaf) for path, leaf in Tree({MODEL: given[MODEL]}).leaves().items()}

    def _changes(self, packed: Mapping[str, Leaf], given: State) -> Iterator[Floats]:
        """Yield the numbers to be packed, less the model that was given, in pieces for the processor's cache."""
        bases = self._bases(given)
        for path, leaf in packed.items():
            numbers = np.ravel(leaf)
            for start in range(0, len(numbers), PIECE):
                piece = numbers[start : start + PIECE].astype(np.float64)
                if path in bases:
                    piece -= _rounded(bases[path][start : start + PIECE])
                yield piece


def _rounded(base: npt.NDArray[Any]) -> Floats:
    """Round what is taken off before a sum: what differs by 10⁻¹⁶ must not show in what follows."""
    found: Floats = np.multiply(base, 2.0**FRACTION_BITS, dtype=np.float64)
    np.rint(found, out=found)
    found *= 2.0**-FRACTION_BITS
    return found


def _steady(whole: float) -> float:
    """Return a number without its last digits, so that two ways of computing the same have the same sums."""
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
    chosen = rule.combine_rule
    inside = weights > 0  # who had nothing to train on has no say
    if not inside.any():
        return SummedMean(sent[0], np.zeros(0), 0, 0.0)
    if not chosen.sums_only:
        matrix = np.array([one.flat() for one, counts in zip(sent, inside, strict=True) if counts])
        return SummedMean(form.like.like(chosen(matrix, weights[inside])), np.zeros(0), 0, float(weights.sum()))
    if type(chosen).weights_of is not Aggregation.weights_of:  # it looks at the vectors
        weights = chosen.weights_of(np.array([one.flat() for one in sent]), weights)
    return form.mean(sent, weights, given, max(whole, math.fsum(weights.tolist())))

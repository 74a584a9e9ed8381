"""Sidon labels: integers whose sums of at most h terms name their terms (B_h sets, Section 5.4).

Every class of every site gets one label. Where hulls of several sites meet in a bin, the coordinator
sees only the sum of their labels and has to take it apart again. Bose and Chowla's construction gives
labels of nearly the smallest possible size, and its algebra takes sums apart without any search.

>>> labels = bose_chowla(4, 2)
>>> labels.decode(labels.labels[0] + labels.labels[3])
(0, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import index

import numpy as np
from numpy.typing import NDArray

from fedgeom.arrays import Ints
from fedgeom.codes.fields import ExtensionField, factor_order, logarithm_work, logarithms_of_linear, next_prime
from fedgeom.errors import DecodeError, InputError
from fedgeom.memo import memoize

# field points that carry no label: the dropped zero, and those not kept
_FILLER = -1
_UNUSED = -2
_WORK_LIMIT = 2 * 10**7  # multiplications we are willing to spend on logarithms: a few seconds
_PRIMES_TRIED = 128  # how many primes above count are looked at


@dataclass(frozen=True, eq=False)
class SidonLabels:
    """Labels whose sums of at most h terms, repetitions allowed, are all different.

    ``labels`` are positive and ascending. Equal parameters give equal labels in every process, so that
    the coordinator and the sites each build their own.
    """

    labels: tuple[int, ...]
    h: int
    _field: ExtensionField | None = field(repr=False)  # None for h = 1, where there is nothing to solve
    _offset: int = field(repr=False)  # h times the logarithm of the element that became zero
    _label_at: NDArray[np.int64] = field(repr=False)  # root in F_p → index of a label, or a marker

    def decode(self, total: int) -> tuple[int, ...]:
        """Return the sorted indices, repetitions included, of the at most h labels that add up to total."""
        return self.decode_many([total])[0]

    def decode_many(self, totals: Sequence[int]) -> list[tuple[int, ...]]:
        """Decode many totals at once; the first that is no sum of at most h labels raises DecodeError."""
        found: list[tuple[int, ...]] = []
        for total, indices in zip(totals, self.attempt_many(totals), strict=True):
            if indices is None:
                raise DecodeError(
                    f"{total} is not a sum of at most h = {self.h} of the {len(self.labels)} labels; either it "
                    "was corrupted or more than h labels were added: raise h or use a finer grid"
                )
            found.append(indices)
        return found

    def attempt_many(self, totals: Sequence[int]) -> list[tuple[int, ...] | None]:
        """Decode many totals at once, with None for each that is no sum of at most h labels."""
        totals = [index(t) for t in totals]
        largest = self.h * self.labels[-1]
        inside = [i for i, t in enumerate(totals) if 0 <= t <= largest]
        found: list[tuple[int, ...] | None] = [None] * len(totals)
        rows = len(inside) if self._field is None else max(1, (1 << 22) // self._field.p)
        for start in range(0, len(inside), rows or 1):
            block = inside[start : start + rows]
            for i, indices in zip(block, self._terms([totals[i] for i in block]), strict=True):
                # The field only knows sums modulo p**h − 1; the integers have the last word.
                if indices is not None and sum(self.labels[j] for j in indices) == totals[i]:
                    found[i] = indices
        return found

    def _terms(self, totals: list[int]) -> list[tuple[int, ...] | None]:
        """Find candidate terms of each total as the roots of a polynomial.

        With k ≤ h labels a_i = d_i − d_0 in the sum s, β**(s + h·d_0) = Π(β + α_i)·(β + α_0)**(h−k).
        The monic polynomial f(x) = Π(x + α_i)·(x + α_0)**(h−k) has degree h and agrees with this element
        at β, so f is m(x) plus the element written as a polynomial; its roots are the −α_i.
        """
        if self._field is None:
            return [(t - 1,) if t else () for t in totals]
        p = self._field.p
        h = self.h
        element = self._field.powers_of_generator([t + self._offset for t in totals])
        coefficients = np.ones((len(totals), h + 1), dtype=np.int64)
        coefficients[:, :h] = (element + self._field.low) % p
        # All p points at once: with p of some hundreds this beats any root finder.
        row, root = np.nonzero(coefficients @ self._point_powers % p == 0)
        multiplicity = _multiplicities(coefficients[row], root, p)
        row = np.repeat(row, multiplicity)
        label = np.repeat(self._label_at[root], multiplicity)
        ends = np.cumsum(np.bincount(row, minlength=len(totals))).tolist()
        names = label.tolist()
        terms = list[tuple[int, ...] | None]()
        start = 0
        for end in ends:
            members = names[start:end]
            splits = end - start == h and _UNUSED not in members
            terms.append(tuple(sorted(j for j in members if j >= 0)) if splits else None)
            start = end
        return terms

    @cached_property
    def _point_powers(self) -> Ints:
        """Hold x**i mod p for i = 0 … h and every x in F_p."""
        assert self._field is not None
        p = self._field.p
        powers = np.ones((self.h + 1, p), dtype=np.int64)
        for i in range(self.h):
            powers[i + 1] = powers[i] * np.arange(p) % p
        return powers

    def counted(self, max_terms: int) -> CountedLabels:
        """Return labels that also count themselves; see CountedLabels."""
        return CountedLabels(self, max_terms)


@dataclass(frozen=True, eq=False)
class CountedLabels:
    """Sidon labels whose sum also says how many labels it holds, so that too many are noticed.

    The sum of more than h Sidon labels may equal a sum of h others, and would be read wrongly. So label
    i is sent as a_i·(M + 1) + 1, where M (``max_terms``) is the largest number of labels that can ever
    meet in one bin, for instance all labels of all sites. The remainder modulo M + 1 is then the number
    of labels, the quotient the sum of the a_i. The price is log2(M + 1) bits per value. If more than M
    labels were added after all, the count wraps and the promise is void: choose M large enough.
    """

    sidon: SidonLabels
    max_terms: int

    def __post_init__(self) -> None:
        if self.max_terms < 1:
            raise InputError(f"max_terms is {self.max_terms}, wanted the largest number of labels in one bin, ≥ 1")

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """The integers actually added, one per label index."""
        return tuple(a * (self.max_terms + 1) + 1 for a in self.sidon.labels)

    @property
    def h(self) -> int:
        """The largest number of labels whose sum can be taken apart."""
        return self.sidon.h

    @property
    def largest_total(self) -> int:
        """The largest sum of max_terms labels: a modulus has to exceed it."""
        return self.max_terms * self.labels[-1]

    def encode(self, indices: Sequence[int]) -> int:
        """Return the sum of the labels with these indices, which may repeat."""
        if len(indices) > self.max_terms or not all(0 <= i < len(self.labels) for i in indices):
            raise InputError(
                f"got {len(indices)} indices {list(indices)[:8]}; wanted at most {self.max_terms}, each in "
                f"[0, {len(self.labels)})"
            )
        return sum(self.labels[i] for i in indices)

    def decode(self, total: int) -> tuple[int, ...]:
        """Return the sorted indices of the labels in a total; DecodeError if they are more than h."""
        return self.decode_many([total])[0]

    def decode_many(self, totals: Sequence[int]) -> list[tuple[int, ...]]:
        """Decode many totals at once; the first that cannot be decoded raises DecodeError."""
        found: list[tuple[int, ...]] = []
        for total, indices in zip(totals, self.attempt_many(totals), strict=True):
            if indices is None:
                count = int(total) % (self.max_terms + 1)
                reason = (
                    f"too many labels: count > h, {count} labels met in one bin and at most h = {self.h} can be "
                    "told apart; raise h or use a finer grid"
                    if total >= 0 and count > self.h
                    else f"{total} claims {count} labels but is not the sum of {count} labels; it was corrupted"
                )
                raise DecodeError(reason)
            found.append(indices)
        return found

    def attempt_many(self, totals: Sequence[int]) -> list[tuple[int, ...] | None]:
        """Decode many totals at once, with None for each that holds too many labels or none that fit."""
        parts = [divmod(index(t), self.max_terms + 1) for t in totals]
        # −1 is never a sum: it marks totals that are already known to hold too many labels.
        found = self.sidon.attempt_many([a if count <= self.h else -1 for a, count in parts])
        return [
            indices if indices is not None and len(indices) == count else None
            for indices, (_, count) in zip(found, parts, strict=True)
        ]


@memoize(64)
def bose_chowla(count: int, h: int) -> SidonLabels:
    """Build ``count`` labels of which any sum of at most h names its terms (Section 5.4, Appendix G).

    Let β generate F_{p^h}. The logarithms d_i = log_β(β + α_i), α_i in F_p, are a B_h set modulo
    n = p**h − 1: equal sums of h of them would make β a root of a polynomial of degree below h. On the
    circle of residues we take the shortest arc that holds count + 1 of them and subtract its first one,
    a_i = d_i − d_0 (Section 5.4; the consecutive differences of Appendix G are no B_h set). The zero is
    dropped: it silently fills sums of fewer than h labels up to h. Labels are below p**h.

    The trade in choosing p: labels grow like count·p**(h−1), which asks for the smallest prime above
    ``count``; the logarithms take time that grows with the largest prime factor of n, which may ask for
    another one. We take the first prime whose logarithms take a few seconds at most, and give up
    with InputError if there is none nearby (prime h ≥ 11 with thousands of labels). For h = 1 the labels
    are 1 … count.
    """
    if count < 1 or h < 1:
        raise InputError(f"bose_chowla got count={count}, h={h}; both have to be at least 1")
    if h == 1:
        return SidonLabels(tuple(range(1, count + 1)), 1, None, 0, np.empty(0, dtype=np.int64))
    p, factors = _affordable_prime(count, h)
    space = ExtensionField(p, h, list(factors))
    logs = logarithms_of_linear(space, factors)

    order = sorted(range(p), key=logs.__getitem__)
    span = [(logs[order[(i + count) % p]] - logs[order[i]]) % space.order for i in range(p)]
    first = span.index(min(span))
    arc = [order[(first + i) % p] for i in range(count + 1)]
    label_at = np.full(p, _UNUSED, dtype=np.int64)
    for i, alpha in enumerate(arc, start=_FILLER):
        label_at[-alpha % p] = i
    zero = logs[arc[0]]
    labels = tuple((logs[alpha] - zero) % space.order for alpha in arc[1:])
    return SidonLabels(labels, h, space, h * zero, label_at)


def _affordable_prime(count: int, h: int) -> tuple[int, dict[int, int]]:
    """Return the first prime p > count with cheap logarithms in F_{p^h}, and p**h − 1 factored."""
    p = count
    for _ in range(_PRIMES_TRIED):
        p = next_prime(p)
        factors = factor_order(p, h)
        if logarithm_work(p, factors) <= _WORK_LIMIT:
            return p, factors
    raise InputError(
        f"no prime near {count} allows logarithms in its extension of degree h = {h}; lower h or change the "
        "number of labels a little"
    )


def _multiplicities(coefficients: Ints, roots: NDArray[np.int64], p: int) -> NDArray[np.int64]:
    """Return the multiplicity of one given root per monic polynomial: leading zeros of its Taylor shift."""
    shifted = coefficients.copy()
    degree = shifted.shape[1] - 1
    for k in range(degree):
        for i in range(degree - 1, k - 1, -1):
            shifted[:, i] = (shifted[:, i] + roots * shifted[:, i + 1]) % p
    leading_zeros: NDArray[np.int64] = np.argmax(shifted != 0, axis=1)
    return leading_zeros

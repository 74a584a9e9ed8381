"""Bounds of what sites add to a sum: each site keeps to them, and whoever sees the sum tests it.

A site that keeps to the protocol adds numbers below a bound: the method's ``largest_entry``, where the terms have one,
and always the room that a sum of so many sites has (`fedgeom.protocols.fixed_point.to_fixed`). So no sum of n sites can
be beyond n times the bound. One that is has a vector in it that did not keep to it. Nobody can say whose: that is what
the masks are for.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.errors import ProtocolError
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.secure_sum.messages import SumQuestion

log = logging.getLogger(__name__)

ROOM = 2**62
"""No sum of words that each site kept within its share of the ring reaches this, up to its sign."""


def bound_of(settings: Any) -> float | None:
    """Return the terms' bound of a real number of one site (``largest_entry``); None: what a sum has room for."""
    found: float | None = getattr(settings, "largest_entry", None)
    return found


def bounded(ask: SumQuestion, values: npt.NDArray[Any], largest: float | None, site: str) -> Words:
    """Return numbers as ring elements, cut off at the terms' bound where they are real and there is one.

    values (…), whole or real numbers; returns (numbers,), u8. The site's log says how many were cut off.
    """
    digits = 0 if values.dtype.kind in "iub" else ask.fraction_bits
    largest = largest if ask.reals else None
    # Two passes without a copy, where nothing is cut off; else one more tells how much.
    if largest is not None and values.size and (values.max() > largest or values.min() < -largest):
        cut = int(np.count_nonzero(np.abs(values) > largest))
        log.warning(
            "site %r: %d of %d numbers for %r are larger than largest_entry = %g and were cut off",
            site, cut, values.size, ask.kind, largest,
        )  # fmt: skip
    return to_fixed(values, fraction_bits=digits, sites=len(ask.ticket.participants), largest=largest)


def most_in_sum(question: type[SumQuestion], sites: int, largest: float | None) -> int:
    """Return the largest word, up to its sign, of a sum over so many sites that keep to the bounds.

    ``largest``: the terms' bound of one real number of one site; None: as much as the ring has room for.
    """
    if largest is None or not question.reals:
        return ROOM - 1
    return min(ROOM - 1, sites * round(largest * 2.0**question.fraction_bits))


def check_sum(question: type[SumQuestion], total: Words, sites: int, largest: float | None) -> None:
    """Raise `ProtocolError`, which names what happened, where a sum is larger than the bounds allow.

    total (length,), u8: elements of Z_2^64. Packed words are tested where they are read (`Packing`).
    """
    if question.packed or question.row_sum:
        return
    words, most = total.view(np.int64), most_in_sum(question, sites, largest)
    if not len(words) or (int(words.max()) <= most and int(words.min()) >= -most):
        return
    wrong = np.flatnonzero((words > most) | (words < -most))
    digits = question.fraction_bits if question.reals else 0
    found, bound = int(words[wrong[0]]) / 2.0**digits, most / 2.0**digits
    raise beyond_bound(
        f"the sum {question.kind!r} over {sites} sites: {len(wrong)} of {len(words)} numbers are beyond {bound:.6g}, "
        f"the most that sites within their bounds add up to (entry {wrong[0]} is {found:.6g})"
    )


def beyond_bound(what: str) -> ProtocolError:
    """Return the error for a sum that has a vector in it which did not keep to the bounds."""
    return ProtocolError(
        f"{what}. A site added what the terms do not allow, or its answer was changed on the way; masks hide which. "
        "Nothing was learnt from this sum. Run again without sites you doubt, or with "
        "aggregation=GroupMedian(groups=…), which such a site spoils one group of"
    )

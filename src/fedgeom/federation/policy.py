"""What a site allows, checked at the site before it answers."""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec

from fedgeom.errors import InputError

SNAP = 0.002
"""A threshold written as a decimal number means the simple fraction that is this near: 0.667 means 2/3."""


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A site's own rules; a coordinator cannot loosen them.

    The same struct is the ``[policy]`` table of site.toml, what its template is written from, and what a site checks.
    """

    min_cohort: int = 3
    """The site takes part only in sums over at least this many sites."""

    threshold: float | str = "2/3"
    """The least share of a site's secret-holders that must agree before anything is unmasked: "2/3", or 0.7."""

    max_message_bytes: int = 64 * 2**20
    """The largest message, in bytes, the site reads or writes."""

    methods: tuple[str, ...] = ()
    """The methods the site answers; empty means all that it has installed."""

    runs_per_day: int = 20
    """In how many runs a deployed site takes part in 24 hours; those that are simulated do not count."""

    def __post_init__(self) -> None:
        if self.min_cohort < 2:
            raise InputError(
                f"min_cohort={self.min_cohort} given; a sum over one site is that site's data: use ≥ 2"
            )
        if not Fraction(1, 2) < self.share <= 1:
            raise InputError(
                f"threshold={self.threshold} given; wanted above 0.5 (or two halves could be unmasked apart) "
                "and at most 1"
            )
        if self.max_message_bytes < 1 or self.runs_per_day < 0:
            raise InputError(
                f"max_message_bytes={self.max_message_bytes}, runs_per_day={self.runs_per_day} given; wanted a "
                "positive number of bytes, and 0 runs or more"
            )

    @property
    def share(self) -> Fraction:
        """The threshold as an exact fraction."""
        try:
            exact = Fraction(self.threshold)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise InputError(f'threshold={self.threshold!r} given; wanted a share such as "2/3" or 0.7') from error
        simple = exact.limit_denominator(12)
        return simple if simple > Fraction(1, 2) and abs(simple - exact) <= SNAP else exact

    def holders_needed(self, holders: int) -> int:
        """Return how many of a secret's holders must come together.

        >>> [Policy().holders_needed(n) for n in (3, 4, 5, 6, 7)]
        [2, 3, 4, 4, 5]
        """
        return max(2, math.ceil(self.share * holders))

"""What a site allows, checked at the site before it answers."""

from __future__ import annotations

import msgspec

from fedgeom.errors import InputError


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A site's own rules; a coordinator cannot loosen them."""

    smallest_cohort: int = 3
    """The site takes part only in sums over at least this many sites."""

    threshold: float = 2 / 3
    """The least share of a site's secret-holders that must agree before anything is unmasked."""

    largest_message: int = 64 * 2**20
    """The largest message, in bytes, the site reads or writes."""

    methods: tuple[str, ...] = ()
    """The methods the site answers; empty means all that it has installed."""

    def __post_init__(self) -> None:
        if self.smallest_cohort < 2:
            raise InputError(
                f"smallest_cohort={self.smallest_cohort} given; a sum over one site is that site's data: use ≥ 2"
            )
        if not 0.5 < self.threshold <= 1:
            raise InputError(
                f"threshold={self.threshold} given; wanted above 0.5 (or two halves could be unmasked apart) "
                "and at most 1"
            )

"""The settings of how sites' vectors are added up: by which weights, and how finely they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from fedgeom.federation.settings import Between
from fedgeom.protocols.packed import Packing


@dataclass(frozen=True, kw_only=True)
class SumSettings:
    """Weights and precision of the sums of models."""

    sums_rows_up: ClassVar[bool] = False
    """Whether what is sent are sums over rows, which may be as large as there are rows: they stay at 64 bits."""

    weights: Literal["rows", "sites"] = "rows"
    """Whether a site counts by its number of rows, or all count the same."""
    bits: Literal[21, 32, 64] = 32
    """Of each parameter in a sum of models: a word of 8 bytes holds three, two or one. With 64 nothing is cut off."""
    largest_change: Annotated[float, Between(2.0**-20, 2.0**15)] = 64.0
    """The most that a parameter may change in a round; what is more is cut off. Smaller is finer: K sites' mean is off
    by at most K/2 · 2⁻²⁵ with 32 bits and 64, and with 21 bits by K/2 · 2⁻¹⁴."""

    @property
    def packing(self) -> Packing | None:
        """How parameters are packed into words; None: one to a word."""
        return None if self.bits == 64 or self.sums_rows_up else Packing(self.bits, self.largest_change)

    @property
    def counts_rows(self) -> bool:
        """Whether sites count by their rows, of which all must then know the whole."""
        return self.weights == "rows"

    @property
    def needs_rows(self) -> bool:
        """Whether sites must know how many rows all have before they train: their shares of a sum add up to 1."""
        rule: Any = self  # a training rule, which knows whether it sends something, and in sums
        return bool(rule.masked and rule.sends) and self.packing is not None and self.counts_rows

"""What noise costs: ρ of concentrated differential privacy, and (ε, δ) of many releases, by dp-accounting.

A release with Gaussian noise, real or discrete, of deviation σ on numbers that one row moves by at most Δ in all (L2)
is ρ-zCDP with ρ = Δ²/2σ² (Bun and Steinke 2016, Proposition 1.6; Canonne, Kamath and Steinke 2020, Theorem 4). ρ adds
up over releases of the same rows, and over releases of different rows the largest counts. Which (ε, δ) it comes to, the
accountant says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from fedgeom.errors import InputError
from fedgeom.memo import memoize

NEEDED = "dp_accounting"
ORDERS = (
    *(1 + at / 10 for at in range(1, 100)),
    *range(11, 64),
    *(round(64 * 1.25**at) for at in range(17)),
)
"""The orders α of Rényi divergence that are tried: tight for ε from 0.02 to 50."""
LARGEST_ORDER = float(max(ORDERS))
"""No higher one may be: what rounding costs is proved up to here (`fedgeom.privacy.mechanism`)."""


_LEFT = 1e-6


def check_installed() -> None:
    """Raise `InputError` where the accountant is not installed; whoever promises privacy must be able to count it."""
    if find_spec(NEEDED) is None:
        raise InputError("privacy needs the accountant dp-accounting: pip install 'fedgeom[privacy]'")


@memoize(256)
def _epsilon(rho: float, delta: float) -> float:
    check_installed()
    import dp_accounting  # optional, and takes more than a second to import
    from dp_accounting.rdp import RdpAccountant

    accountant: Any = RdpAccountant(ORDERS)
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    return float(accountant.get_epsilon(delta))


def epsilon_of(rhos: Iterable[float], delta: float) -> float:
    """Return the ε that releases of the same rows come to together, at a δ; of none it is 0.

    >>> round(epsilon_of([0.02, 0.03], 1e-5), 2)
    1.31
    """
    rho = math.fsum(rhos)
    return _epsilon(rho, delta) if rho > 0 else 0.0


@memoize(256)
def rho_for(epsilon: float, delta: float) -> float:
    """Return the largest ρ with which releases are together (ε, δ)-private, to six digits and never more.

    The last of these digits is left: δ and ε then have room, a share of 10⁻⁶ and 10⁻⁷ of them at least, for what the
    noise's sampler is off (`fedgeom.crypto.discrete_gaussian`): 10⁻³⁴ and 10⁻²¹ for a number.


    >>> rho = rho_for(1.0, 1e-5)
    >>> epsilon_of([rho], 1e-5) <= 1.0
    True
    """
    low = 0.0
    high = 1e-6
    while epsilon_of([high], delta) <= epsilon:
        low = high
        high = 2 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of([middle], delta) <= epsilon else (low, middle)
    if low <= 0:
        raise InputError(
            f"epsilon={epsilon:g} with delta={delta:g} given; no noise is large enough: wanted more of one"
        )
    return low * (1 - _LEFT)


def membership_bound(epsilon: float, delta: float) -> float:
    """Return the most by which anybody's guess whether a row was there can beat chance (true less false positives).

    (e^ε - 1 + 2δ)/(e^ε + 1), Humphries et al. 2023, Theorem 3.1; it holds whatever the guesser knows.
    """
    if epsilon > 500:
        return 1.0
    return (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)

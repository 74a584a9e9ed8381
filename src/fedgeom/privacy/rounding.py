"""What it costs to round at random before noise is added: far less than to round to the nearest.

A number x on a fine grid becomes a whole one, k + B with k = ⌊x⌋, where B = 1 has the chance f = x - k; then noise is
added whose sum over the sites that can be relied on is a discrete Gaussian g of variance v. Rounding to the nearest
could move each of d numbers by one more, √d in all. Here what leaves is, for one number, P_x(y) = (1 - f)·g(y - k) +
f·g(y - k - 1), which is nearly the Gaussian about x itself. Let w = y - x, c = B - f (its mean is 0, its variance at
most ¼, and it lies within an interval of length 1), and q_{x,v}(y) ∝ exp(-w²/2v) on whole numbers, whose sums are those
of the integrals but for e^(-2π²v), which is 0 in every digit.

1. P_x/q_{x,v} = E exp((wc - c²/2)/v) is at least exp(-E c²/2v) ≥ exp(-1/8v) (Jensen), at most exp(w²/8v²) (Hoeffding).
2. With V = v/(1 - 1/4v), P_x/q_{x,V} is at most √(V/v) = e^θ, θ = -½·ln(1 - 1/4v), since 1/2v - 1/2V = 1/8v².
3. E(T - 1)² ≤ χ = 2.01/64v² for T = P_x/q_{x,V} under q_{x,V}, and for T = q_{x,v}/P_x under P_x: the former is
   (¼ - Var c)²/2v², the latter (Var c)²/2v², each but for a factor 1 + O(1/v), by integrals of products of Gaussians.
4. A ratio T of chances with T ≤ e^θ and E(T - 1)² ≤ χ has a Rényi divergence, of order β, of at most β/2·χ·e^(βθ) if
   β ≥ 2 (Taylor), of at most χ if β ≤ 2, and of at most θ for all: together 2.02·θ²·β. So P_x is 2.02·dθ²-close to
   q_{x,V}, in d numbers, and so is q_{x',v} to P_{x'}.
5. Between these, q_{x,V} and q_{x',v} with |x - x'| ≤ Δ diverge by βΔ²/2v* + ½·d·(ln(v/V) + ln(v/v*)/(β - 1)), where
   v* = v - (β - 1)(V - v): at most β·(Δ²/2v + d/4(4v - 1)²)/(1 - z) with z = (β - 1)/(4v - 1) < 1.
6. Square roots of ρ add up: D_α(P|R) is at most kα/(kα - 1)·D_β(P|Q) + D_kα(Q|R) with β = (kα - 1)/(k - 1), for all k
   (Bun and Steinke 2016, the inequality by which they prove group privacy), and the best k makes of ρ₁ and ρ₂
   (√ρ₁ + √ρ₂)². What 5. says is then needed for orders up to (1 + r)² times as high, r the share that a root of 4.
   has of the root of 5.

2·√2.02·θ is below 0.36/v, so that √ρ = √(what 5. says) + 0.36·√d/v, for all orders that the accountant tries. The
divergences themselves are computed in tests/privacy/test_rounding.py, for numbers that are small enough.
"""

from __future__ import annotations

import math

from fedgeom.privacy.accounting import LARGEST_ORDER

LEAST_VARIANCE = 2.0**16
"""v, at least: factors 1 + O(1/v) above are then below 1.001."""


def rounded_rho(variance: float, sensitivity: float, numbers: int, order: float = LARGEST_ORDER) -> float:
    """Return ρ of numbers that were rounded at random and have noise of a variance, for orders up to the largest.

    ``sensitivity``: by how much one row moves the numbers before they are rounded (L2), in units of the grid.
    """
    if variance < LEAST_VARIANCE:
        return math.inf
    narrow = 1 / (4 * variance - 1)
    ends = 0.18 * math.sqrt(numbers) / variance  # 4., each of two
    middle = sensitivity**2 / (2 * variance) + numbers * narrow**2 / 4
    most = order * (1 + ends / math.sqrt(middle)) ** 2 * narrow
    if most >= 1:
        return math.inf
    return (math.sqrt(middle / (1 - most)) + 2 * ends) ** 2

"""Distances from features to prototypes in the ball as torch functions, stable in float32 up to the edge.

Needs torch; nothing imports this module but what trains networks. A feature z is a tangent vector at the origin, and
its point exp_o(z) (Eq. 6 of HyperFed) is never formed on the way to a distance: tanh rounds to 1 in float32 where ‖z‖
is above 9, and then neither distance nor gradient knows where the point is. With r = ‖z‖, u = z/r, E = exp(-2r) and
a = 1 - ‖w‖² the distance of Eq. 1 is

    sinh²(d/2) = e^{2r} Q / (4a),   Q = ‖(1 - E)u - (1 + E)w‖²,

in which nothing cancels but a difference of vectors. The last axis holds coordinates; leading axes broadcast.
"""

from __future__ import annotations

import torch

_FAR = 8.0
# From this norm on e^{2r} is split off: sinh²(d/2) itself would overflow where r is above 44.
_TINY = 1e-14
# Squared distances below are taken as this, with gradient 0: the distance has a kink there.


def exp0(z: torch.Tensor) -> torch.Tensor:
    """Return the points exp_o(z) = tanh(‖z‖) z/‖z‖ (Eq. 6)."""
    r = _norm(z)
    return z * (torch.tanh(r) / r)


def log0(w: torch.Tensor) -> torch.Tensor:
    """Return the tangent vectors at the origin of points of the ball; the inverse of `exp0`."""
    r = _norm(w)
    return w * (torch.atanh(r) / r)


def geodesic(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the geodesic distance d(exp_o(z), w) of Eq. 1 from features z (…, n) to points w (…, n) of the open ball.

    Its gradient is finite everywhere: 0 where both points are the same, of norm 2 at most in z far out.
    """
    r, E, Q = _parts(z, w)
    norm = torch.linalg.vector_norm(w, dim=-1)
    gap = ((1.0 - norm) * (1.0 + norm)).clamp_min(torch.finfo(w.dtype).eps)
    # arcosh(1 + t) = ln(1 + t + √(t(t + 2))), for points that are not far out.
    t = (torch.exp(2.0 * r.clamp_max(_FAR)) * Q / (2.0 * gap)).clamp_min(_TINY)
    near = torch.log1p(t + torch.sqrt(t) * torch.sqrt(t + 2.0))
    q = Q.clamp_min(_TINY) / (4.0 * gap)
    far = 2.0 * (r + torch.log(torch.sqrt(q) + torch.sqrt(q + E)))
    return torch.where(r < _FAR, near, far)


def busemann(z: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return ln(‖x - w‖²/(1 - ‖x‖²)) for x = exp_o(z) and ideal points w, of norm 1.

    It is the limit of d(x, s·w) - d(0, s·w) for s → 1, where the distances themselves are infinite.
    """
    r, _, Q = _parts(z, w)
    return 2.0 * r + torch.log(Q.clamp_min(_TINY) / 4.0)


def distances(z: torch.Tensor, prototypes: torch.Tensor) -> torch.Tensor:
    """Return how far features (rows, n) are from prototypes (classes, n), as (rows, classes).

    Geodesics, or Busemann functions where the prototypes are ideal points (slope 1).
    """
    ideal = bool((torch.linalg.vector_norm(prototypes, dim=-1) >= 1.0 - 1e-6).all())
    return (busemann if ideal else geodesic)(z[:, None, :], prototypes[None, :, :])


def _parts(z: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return r, E and Q of the formula above."""
    r = _norm(z)
    E = torch.exp(-2.0 * r)
    away = z * (-torch.expm1(-2.0 * r) / r) - (1.0 + E) * w
    return r[..., 0], E[..., 0], (away * away).sum(dim=-1)


def _norm(z: torch.Tensor) -> torch.Tensor:
    """Return ‖z‖ with the last axis kept; of zero a tiny number, so that z/‖z‖ has a gradient."""
    norm: torch.Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return norm.clamp_min(1e-7)

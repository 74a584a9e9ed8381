"""The plane in which classes differ most: two discriminant directions (Fisher), from scatter matrices."""

from __future__ import annotations

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

FAINT = 1e-3
"""Below this share of the first ratio, a second discriminant direction is noise."""


def discriminant_plane(within: Floats, between: Floats, spread: float) -> Floats:
    """Return the directions with the two largest ratios of scatter between and within classes, (columns, 2), f8.

    Rows of that scatter then have root mean square ``spread`` in the plane. Each direction points where its largest
    weight is positive. within, between (columns, columns), f8: symmetric, divided by the number of rows.
    """
    from scipy.linalg import eigh  # slow to import

    columns = len(within)
    ridge = 1e-6 * max(np.trace(within) / columns, 1e-12)
    within = within + ridge * np.eye(columns)
    ratios, vectors = eigh(between, within)
    P = vectors[:, [-1, -2]]
    if ratios[-2] < FAINT * ratios[-1]:  # two classes differ along one line only
        P[:, 1] = _broadest_beside(P[:, 0], within, within + between)
    P = P * np.sign(P[np.abs(P).argmax(axis=0), [0, 1]])  # a sign nobody has to guess
    square = float(np.trace(P.T @ (within + between) @ P))
    if not 0 < square < np.inf:
        raise InputError(f"scatter of {square:.3g} in the plane given; that of rows is above 0")
    return np.asarray(P * (spread / np.sqrt(square)))


def _broadest_beside(first: Floats, within: Floats, total: Floats) -> Floats:
    """Return the direction of most variance that is uncorrelated with the first one inside classes.

    Discriminant analysis leaves a second direction open when there are two classes; the first principal
    component of what is left shows most of the data, and does not hang on rounding.
    """
    from scipy.linalg import eigh, null_space  # slow to import

    free = null_space((within @ first)[None, :])
    direction = free @ eigh(free.T @ total @ free)[1][:, -1]
    return np.asarray(direction / np.sqrt(direction @ within @ direction))

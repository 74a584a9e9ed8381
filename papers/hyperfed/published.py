"""What the paper has in its Tables 1, 2 and 3 for the data sets that are here, in percent (Liao et al. 2023)."""

from __future__ import annotations

_NAMES = (("fashion-mnist", 0.1), ("fashion-mnist", 0.5), ("fashion-mnist", 5.0))
_NAMES += (("cifar-10", 0.1), ("cifar-10", 0.5), ("cifar-10", 5.0))
_GLOBAL = {
    "FedAvg": (78.51, 86.75, 88.75, 36.82, 62.44, 67.53),
    "FedProx": (78.49, 86.57, 88.68, 37.95, 63.48, 67.23),
    "SCAFFOLD": (79.20, 87.03, 88.80, 33.10, 66.99, 70.53),
    "FedDyn": (85.25, 89.46, 90.51, 35.16, 65.07, 69.04),
    "MOON": (83.78, 90.27, 91.08, 33.54, 60.23, 62.45),
    "FedRoD": (77.26, 89.17, 90.78, 37.79, 66.90, 70.81),
    "FedBABU": (74.31, 82.44, 85.21, 37.90, 60.11, 65.16),
    "SphereFed": (88.55, 90.55, 91.17, 32.41, 70.02, 70.13),
    "HyperFed-Geodesic": (79.00, 90.76, 91.48, 34.26, 65.53, 68.65),
    "HyperFed-Shared": (85.29, 90.48, 91.23, 36.44, 69.21, 73.16),
    "HyperFed-Averaged": (87.91, 90.98, 91.69, 36.69, 70.12, 70.81),
    "HyperFed": (89.38, 91.16, 91.83, 38.03, 71.25, 75.22),
}
_PERSONAL = {
    "FedMTL": (97.39, 90.89, 85.71, 90.57, 65.68, 48.31),
    "FedPer": (96.87, 90.54, 87.21, 91.93, 75.63, 67.20),
    "pFedMe": (96.03, 88.57, 84.95, 92.45, 77.64, 66.09),
    "Ditto": (97.79, 93.75, 92.05, 91.34, 74.35, 69.94),
    "APPLE": (96.79, 90.49, 86.59, 89.85, 67.96, 56.13),
    "FedRoD": (97.21, 93.48, 91.62, 91.24, 72.11, 71.33),
    "FedBABU": (96.64, 89.59, 85.57, 92.04, 64.05, 63.46),
    "SphereFed": (88.91, 90.87, 91.88, 91.68, 78.39, 72.86),
    "HyperFed-Geodesic": (97.00, 93.98, 91.89, 91.68, 72.20, 69.02),
    "HyperFed-Fixed": (96.53, 92.66, 90.85, 90.57, 79.66, 59.38),
    "HyperFed-Shared": (97.50, 93.00, 91.52, 92.69, 77.43, 71.62),
    "HyperFed-Averaged": (97.83, 93.73, 91.96, 92.63, 70.53, 69.02),
    "HyperFed": (98.13, 94.19, 92.08, 93.49, 83.17, 74.94),
}
_DIMENSIONS = (2, 5, 10, 20, 25, 50, 100)
DIMENSION = {
    "global": dict(zip(_DIMENSIONS, (88.59, 91.07, 90.91, 91.16, 90.74, 90.74, 90.74), strict=True)),
    "personal": dict(zip(_DIMENSIONS, (88.91, 93.20, 93.84, 93.98, 93.70, 93.73, 93.66), strict=True)),
}
"""Table 3: accuracy by the dimension of the features, Fashion-MNIST, α = 0.5."""


def value(column: str, row: str, data: str, alpha: float) -> float | None:
    """Return the paper's figure, "global" (Table 1) or "personal" (Table 2); None where it has none."""
    row_of = (_GLOBAL if column == "global" else _PERSONAL).get(row)
    return None if row_of is None or (data, alpha) not in _NAMES else row_of[_NAMES.index((data, alpha))]

"""Per-class moments by one secure sum: a Gaussian discriminant, or the nearest centroid."""

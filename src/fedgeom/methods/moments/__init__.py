"""Per-class moments by secure sum: nearest Lorentz centroid and Gaussian discriminant."""

"""Secure aggregation of convex hulls: a one-shot SVM in the Poincaré disc."""

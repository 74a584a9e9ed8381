"""Gaussians of classes, from sums."""

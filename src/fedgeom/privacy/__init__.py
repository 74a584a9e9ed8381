"""Noise that hides one row: mechanisms, what they promise, and what all runs of a site cost together."""

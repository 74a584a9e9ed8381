"""Noise that hides one row: mechanisms and what they promise."""

"""Heads: how features become one score per class."""

"""Generalised linear models of all sites' rows, by Newton's steps over secure sums."""

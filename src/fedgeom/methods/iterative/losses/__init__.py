"""Losses: what a site minimises over its rows, with eyes for features, class counts and models of before."""

"""Ellipses: a Gaussian for each class of each site, matched across sites that have words of their own."""

"""Persistent homology: diagrams, descriptors, clusters of sites."""

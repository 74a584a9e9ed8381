"""Federated learning from the shape of data."""

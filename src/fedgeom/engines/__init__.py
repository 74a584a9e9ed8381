"""Engines carry questions to sites: `embedded` in this process, `flower` across machines."""

"""Engines carry questions to sites: `embedded` in this process, others across machines."""

"""Engines carry questions to sites: `embedded` in this process, `nats` across machines, `flower` inside Flower."""

"""Adding rows to a ridge, or taking them out, by one secure sum of the change."""

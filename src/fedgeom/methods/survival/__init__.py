"""Times until an event: proportional hazards and survival curves of all sites' rows, by secure sums."""

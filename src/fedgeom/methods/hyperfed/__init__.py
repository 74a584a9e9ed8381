"""HyperFed: fixed prototypes in hyperbolic space, and updates weighed for consistency."""

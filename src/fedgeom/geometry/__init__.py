"""Mathematics on arrays: hyperbolic geometry, Gaussians, topology, graphs.

Nothing here knows messages or files, and randomness comes in as an argument.
"""

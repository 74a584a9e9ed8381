"""Mathematics on arrays: the Poincaré ball, its hulls, grids and samples, and what is learned from them.

Nothing here knows messages or files, and randomness comes in as an argument. Names are loaded when they are
first used, so that importing this package costs no more than NumPy.
"""

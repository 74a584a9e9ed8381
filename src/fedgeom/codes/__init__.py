"""Integers that add up and can be taken apart again: prime fields, Sidon labels, sparse power sums.

Nothing here knows a float, a file or a network. ``fields`` holds the arithmetic, ``sidon`` the labels
whose sums name their terms (Section 5.4), ``scma`` the code that lets many sites add sparse vectors
without anybody sending positions (Section 5.5).
"""

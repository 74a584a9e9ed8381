"""Preparation before a method: the sites agree on columns and categories, then fit each step by secure sums.

Each site seals what its columns and categories are called under the secret that the sites share; every site opens all
lists. Categories are counted, in a secure sum and under numbers instead of words, and only those that enough sites and
rows have are named; the others are put together. The coordinator learns the joint columns and categories, and of every
step the sums that it is fitted from. What follows from a sum each site works out itself, after a look at its tag.
"""

"""The sum of the sites' vectors, and nothing else, for the coordinator.

Double masking as in Bonawitz et al. 2017, rounds 2 to 4. A site adds to its vector one mask of its own
and, for each peer, a mask both share, with opposite signs. When all masked vectors are in, the sites
confirm to each other who is still there, then help to remove the own masks of those that are (from
shares of their seeds) and the pairwise masks of those that are not (from shares of their mask keys).
Nobody ever helps with both for one site. Every round has keys of its own, so what is revealed in one
round opens nothing in another. The masks follow from these keys *and from the question*: sites that
were asked different things have masks that do not cancel, and their sum stays random.
"""

"""Joining: sites show signed keys, check each other against their rosters, and share recovery secrets.

The steps follow Bonawitz et al. 2017 (rounds 0 and 1) with the neighbourhoods of SecAgg+. Between the two every
pair of sites that write to each other exchanges ciphertexts of ML-KEM-768. That takes a question of its own: unlike
Diffie–Hellman, an encapsulation is known to the other side only when it has arrived, and with the letters a site leaves
the locked keys of all its pairs, without which no sum with a lost site could be unmasked. Letters open
only between sites that were told the same cohort, and signatures fit only if they were told the same
terms. Beside the shares some *seed contributors* (when sites are few: everyone) send all sites a random secret,
end-to-end encrypted; all sites use that of the first seed contributor still there. From it follows what the
sites must agree on behind the coordinator's back, for example the hidden order of Appendix B of the
hulls paper: sorting by keyed hashes instead of exchanging n² random numbers, with the same trust (a
site may know the order, the coordinator may not).
"""

from __future__ import annotations

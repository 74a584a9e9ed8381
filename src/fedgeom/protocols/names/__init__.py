"""The union of the sites' label names, without telling the coordinator who has which.

Each site seals its names, padded, under the secret that the sites share (`Joining.open_letters`). The
coordinator relays the sealed lists; every site opens them all and reports the same union. Sites learn
each other's names; the coordinator learns the union.

A sum over a class that one site has is that site's own. So where a policy asks for it (`Policy.class_floors`), the
sites first count, in a secure sum and under numbers instead of names, at how many sites and in how many rows each name
occurs. They check the sum by its tag, and from then on use, and tell the coordinator, only the names that enough sites
and rows have; the others are named to the sites that have them.
"""

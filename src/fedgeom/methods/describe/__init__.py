"""A description of all sites' tables by secure sums: the federated table one."""

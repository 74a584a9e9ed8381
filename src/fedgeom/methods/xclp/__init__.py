"""Cross-client label propagation: labels travel along a joint graph of all sites' points, rows stay."""

"""Everything that knows Flower is behind this door."""

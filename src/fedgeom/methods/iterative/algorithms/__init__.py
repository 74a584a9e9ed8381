"""The rows: one short file each."""

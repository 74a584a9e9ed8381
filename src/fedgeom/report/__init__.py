"""Pictures, tables and pages from a run. No training here."""

"""Steps that several methods share, the coordinator's half and the site's side by side."""

"""Training on rows of which few have a label: labels spread over all sites in every few rounds."""

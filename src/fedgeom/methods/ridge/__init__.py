"""Ridge: exact ridge classification on features from one secure sum."""

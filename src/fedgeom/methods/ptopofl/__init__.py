"""pTopoFL: personalised federated learning by the shape of the sites' data."""

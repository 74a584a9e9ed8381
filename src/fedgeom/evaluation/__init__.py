"""What a federated classifier is compared with, and how it is scored."""

"""Deployments: site and coordinator folders, certificates, jobs, and the Flower programs that run them."""

"""Deployments: site and coordinator folders, certificates, jobs, and the programs that run them.

What travels, and how, is the engine's business (`fedgeom.engines.nats`); here is who may take part, what a site keeps
and allows, and how a run is started, followed and resumed.
"""

"""A fedgeom run as a Flower app: every node answers for the site in its own folder."""

from fedgeom.deploy.flower import client_app, server_app

server = server_app()
client = client_app()

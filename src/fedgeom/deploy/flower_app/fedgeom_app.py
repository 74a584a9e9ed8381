"""What Flower loads; everything is in the installed fedgeom."""

from fedgeom.deploy.programs import client_app, server_app

server = server_app()
client = client_app()

"""What Flower loads; everything is in the installed fedgeom."""

from fedgeom.deploy.coordinator_app import make_app as _server
from fedgeom.deploy.site_app import make_app as _client

server = _server()
client = _client()

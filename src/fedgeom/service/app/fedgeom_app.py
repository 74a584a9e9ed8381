"""What Flower loads; everything is in the installed fedgeom."""

from fedgeom.service.coordinator_app import make_app as _server
from fedgeom.service.site_app import make_app as _client

server = _server()
client = _client()

"""The names of sites and the addresses of coordinators: which are possible, and which are on this machine."""

from __future__ import annotations

import ipaddress
import re

from fedgeom.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
DEFAULT_PORT = 8000


def check_name(name: str) -> str:
    """Return a site's name, or say which names are possible."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be a site's name; wanted letters, digits, '.', '_' and '-', such as 'charite'"
        )
    return name


def check_address(address: str) -> None:
    """Refuse what is not a host and a port."""
    host, _, port = address.rpartition(":")
    if not host or ":" in host or "/" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"{address!r} is not the address of a coordinator; wanted HOST:PORT, such as host:8000")


def check_loopback(address: str) -> None:
    """Refuse an insecure federation anywhere but on this machine."""
    host = address.rsplit(":", 1)[0].strip("[]") if address.count(":") == 1 or "]" in address else address
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        raise InputError(
            f"an insecure federation works on this machine only; {address!r} is not a loopback address"
        )

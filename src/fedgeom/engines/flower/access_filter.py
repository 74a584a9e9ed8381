"""What reaches the coordinator's port from other machines: the sites' own requests, and nothing else.

Flower serves three things on one port: *fleet*, by which nodes fetch questions and bring answers, signed by
their keys; *control*, by which runs are started and stopped and nodes let in; and *runtime*, for the programs
that it starts itself. Control and runtime ask nobody who he is. So they are open to this machine only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FLEET = "/v1/fleet/"
REFUSAL = b"fedgeom: only this machine may do that; other machines reach the fleet's part of the port\n"


class AccessFilter:
    """Wraps Flower's web application: what other machines may not ask is refused."""

    def __init__(self, app: App):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan" or may_pass(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            head = [(b"content-type", b"text/plain"), (b"content-length", str(len(REFUSAL)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": head})
            await send({"type": "http.response.body", "body": REFUSAL})
        else:
            await send({"type": "websocket.close", "code": 1008})


def may_pass(scope: Scope) -> bool:
    """Say whether a request may go on: it is for the fleet, or it comes from this machine."""
    if scope["type"] == "http" and str(scope.get("path", "")).startswith(FLEET):
        return True
    client, server = scope.get("client"), scope.get("server")
    if not client:
        return False
    # Programs here that use the machine's own address come from that address too.
    return _is_loopback(client[0]) or bool(server and client[0] == server[0])


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback

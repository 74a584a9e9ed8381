"""Flower's layers between web server and application: a request goes only through those that can have to do with it.

Every layer passes on what is not of its own part of the port, but wraps each request and each answer for it, twice half
a millisecond. Which part a request is of is said by its path, by which Flower's application then routes it, too: one
that goes the short way can reach nothing that the layers left out look after.

The other layers are gone through without a task for each (`fedgeom.engines.flower.direct_layer`) by requests that are
answered whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fedgeom.engines.flower.direct_layer import DirectLayer

FLEET, RUNTIME = "/v1/fleet/", "/v1/runtime/"
NOT_FOR: dict[str, tuple[str, ...]] = {
    "ControlSensitiveResponseMiddleware": (FLEET, RUNTIME),
    "ControlAuthenticationMiddleware": (FLEET, RUNTIME),
    "ControlLicenseMiddleware": (FLEET, RUNTIME),
    "ControlEventLogMiddleware": (FLEET, RUNTIME),
    "RuntimeTracingMiddleware": (FLEET,),
    "FleetEventLogMiddleware": (RUNTIME,),
}
"""Layers of Flower's, and requests that they have nothing to do with. What is not named here sees every request: who a
node is, above all, is asked as ever."""

WHOLE = frozenset(
    f"{part}{name}"
    for part, names in {
        FLEET: "send-node-heartbeat get-run get-fab",
        RUNTIME: "send-task-heartbeat get-nodes acquire-task pull-task-input push-task-output push-logs",
    }.items()
    for name in [
        *names.split(),
        *("pull-messages", "push-messages", "pull-object", "push-object", "confirm-message-received"),
    ]
)
"""Requests that are answered in one piece; answers to others may flow."""


class ShortWay:
    """Stands for a layer: what does not concern it goes past it."""

    def __init__(self, app: Any, make: Callable[[Any], Any], past: tuple[str, ...]):
        self._app, self._layer, self._past = app, make(app), past
        self._direct = DirectLayer(app, self._layer.dispatch_func) if _of_flower(self._layer) else self._layer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, through the layer or past it."""
        path = str(scope["path"]) if scope["type"] == "http" else ""
        way = self._app if path.startswith(self._past) else self._direct if path in WHOLE else self._layer
        await way(scope, receive, send)


def shortened(layers: Iterable[Any]) -> list[Any]:
    """Return Flower's layers, in their order, each with a way past it for what it passes on anyway."""
    from starlette.middleware import Middleware  # comes with Flower, which is optional

    return [Middleware(ShortWay, make=_maker(layer), past=NOT_FOR.get(layer.cls.__name__, ())) for layer in layers]


def _maker(layer: Any) -> Callable[[Any], Any]:
    return lambda app: layer.cls(app, *layer.args, **layer.kwargs)


def _of_flower(layer: Any) -> bool:
    """Say whether a layer is Starlette's with code of Flower's in it: others may rely on the task and the stream."""
    from starlette.middleware.base import BaseHTTPMiddleware  # comes with Flower, which is optional

    plain = type(layer).__call__ is BaseHTTPMiddleware.__call__
    return plain and str(layer.dispatch_func.__module__).startswith("flwr.")

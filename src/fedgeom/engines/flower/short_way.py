"""Flower's layers between web server and application: a request goes only through those that can have to do with it.

Every layer passes on what is not of its own part of the port, but wraps each request and each answer for it, twice half
a millisecond. Which part a request is of is said by its path, by which Flower's application then routes it, too: one
that goes the short way can reach nothing that the layers left out look after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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


class ShortWay:
    """Stands for a layer: what does not concern it goes past it."""

    def __init__(self, app: Any, make: Callable[[Any], Any], past: tuple[str, ...]):
        self._app, self._layer, self._past = app, make(app), past

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, through the layer or past it."""
        past = scope["type"] == "http" and str(scope["path"]).startswith(self._past)
        await (self._app if past else self._layer)(scope, receive, send)


def shortened(layers: Iterable[Any]) -> list[Any]:
    """Return Flower's layers, in their order, each with a way past it for what it passes on anyway."""
    from starlette.middleware import Middleware  # comes with Flower, which is optional

    return [
        Middleware(ShortWay, make=_maker(layer), past=NOT_FOR[layer.cls.__name__])
        if layer.cls.__name__ in NOT_FOR
        else layer
        for layer in layers
    ]


def _maker(layer: Any) -> Callable[[Any], Any]:
    return lambda app: layer.cls(app, *layer.args, **layer.kwargs)

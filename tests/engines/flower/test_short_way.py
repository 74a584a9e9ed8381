"""Requests go past layers that pass them on anyway, and through all others."""

from __future__ import annotations

import asyncio
from typing import Any, get_type_hints

import pytest

from fedgeom.engines.flower.patches import FLEET_PREFIX, NOT_FOR, RUNTIME, WHOLE, DirectLayer, ShortWay, shortened


class Layer:
    """A layer that notes what goes through it."""

    seen: list[tuple[str, str]]

    def __init__(self, app: Any, word: str = ""):
        self.app, self.word = app, word

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append((type(self).__name__, scope.get("path", scope["type"])))
        await self.app(scope, receive, send)


async def end(scope: Any, receive: Any, send: Any) -> None:
    """Nothing comes after this."""


def through(path: str, *names: str, kind: str = "http") -> list[str]:
    """Return the layers, of these, that a request goes through."""
    middleware = pytest.importorskip("starlette.middleware", reason="Flower is not installed").Middleware
    seen: list[tuple[str, str]] = []
    app: Any = end
    for layer in reversed(shortened([middleware(type(name, (Layer,), {"seen": seen}), "word") for name in names])):
        app = layer.cls(app, *layer.args, **layer.kwargs)
    asyncio.run(app({"type": kind, "path": path} if kind == "http" else {"type": kind}, None, None))
    return [name for name, _ in seen]


ALL = ("NodeAuthMiddleware", *NOT_FOR)


def test_a_sites_request_meets_what_asks_who_it_is_and_no_layer_of_the_coordinators():
    assert through(FLEET_PREFIX + "pull-messages", *ALL) == ["NodeAuthMiddleware", "FleetEventLogMiddleware"]
    assert through(RUNTIME + "pull-messages", *ALL) == ["NodeAuthMiddleware", "RuntimeTracingMiddleware"]


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/", "/v1/fleet", "//v1/fleet/x", "/V1/fleet/x", "/v1/control/../fleet/x"]
)
def test_every_other_request_goes_through_all_of_them(path):
    assert through(path, *ALL) == list(ALL)


def test_what_is_no_request_goes_through_all_of_them():
    assert through("", *ALL, kind="lifespan") == list(ALL)


def test_flowers_own_layers_are_those_that_are_named_here():
    """Each passes on what is not its own: that is what makes the short way the same way."""
    main = pytest.importorskip("flwr.superlink.main", reason="Flower is not installed")
    layers = {layer.cls.__name__ for layer in main._get_middleware()}
    assert set(NOT_FOR) <= layers
    assert layers - set(NOT_FOR) == {"BaseHTTPMiddleware", "ProtobufTranslationMiddleware", "NodeAuthMiddleware"}


def test_flowers_own_layers_are_gone_through_without_a_task_by_what_is_answered_whole():
    main = pytest.importorskip("flwr.superlink.main", reason="Flower is not installed")
    for layer in shortened(main._get_middleware()):
        short = layer.cls(end, *layer.args, **layer.kwargs)
        assert isinstance(short._direct, DirectLayer)
        assert short._direct is not short._layer


def test_a_strangers_layer_is_left_as_it_is():
    base = pytest.importorskip("starlette.middleware.base", reason="Flower is not installed")

    async def dispatch(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    short = ShortWay(end, lambda app: base.BaseHTTPMiddleware(app, dispatch), ())
    assert short._direct is short._layer


def test_what_is_answered_whole_is_so_in_the_installed_flower():
    """A handler that returns an iterator, or a response of its own, may let its answer flow."""
    pytest.importorskip("flwr", reason="Flower is not installed")
    from flwr.supercore.protobuf.routing import ProtobufRoute
    from flwr.supercore.routers.runtime.router import router as runtime
    from flwr.superlink.routers.fleet.router import router as fleet
    from google.protobuf.message import Message

    routes = {route.path: route for router in (fleet, runtime) for route in router.routes}
    for path in sorted(WHOLE):
        assert isinstance(routes[path], ProtobufRoute), path
        assert issubclass(get_type_hints(routes[path].endpoint)["return"], Message), path
    assert RUNTIME + "responses" not in WHOLE  # what a language model says, word by word

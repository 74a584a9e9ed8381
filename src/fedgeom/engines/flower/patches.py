"""What fedgeom changes in a running Flower program; no other module sets anything in Flower's modules.

Flower ships the code of an app to every node, and whoever reaches the coordinator's port may submit a run. A site must
not run a stranger's code, and other machines must not control the coordinator: these changes are required, and a
program in which they cannot be made stops. The others make it quicker. Which symbols are changed, and how they
have to look, is in `fedgeom.engines.flower.patch_table`.
"""

from __future__ import annotations

import gc
import ipaddress
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any

from fedgeom.engines.flower import patch_table as flower
from fedgeom.engines.flower.carrier import Carrier, WithCarrier
from fedgeom.engines.flower.message_layer import BodyLimit, MessageLayer, is_registered
from fedgeom.engines.flower.node_answers import NodeAnswers
from fedgeom.engines.flower.patch_table import Symbol

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
    client = scope.get("client")
    server = scope.get("server")
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


Message = MutableMapping[str, Any]
ReceiveMessage = Callable[[], Awaitable[Message]]


class DirectLayer:
    """Does for whole answers what Starlette's ``BaseHTTPMiddleware`` does for all."""

    def __init__(self, app: Any, dispatch: Callable[[Any, Any], Awaitable[Any]]):
        self._app = app
        self._dispatch = dispatch

    async def __call__(self, scope: Any, receive: ReceiveMessage, send: Any) -> None:
        """Pass a request through the layer."""
        from starlette.requests import Request  # comes with Flower, which is optional
        from starlette.responses import Response

        remembering = _Remembering(receive)

        async def call_next(_: Any) -> Any:
            start: Message = {}
            pieces: list[bytes] = []

            async def catch(message: Message) -> None:
                if message["type"] == "http.response.start":
                    start.update(message)
                elif message["type"] == "http.response.body":
                    pieces.append(message.get("body", b""))

            await self._app(scope, remembering.again(), catch)
            if not start:
                raise RuntimeError("no response was returned")
            response = Response(b"".join(pieces), start["status"])
            response.raw_headers = list(start.get("headers", ()))
            return response

        response = await self._dispatch(Request(scope, remembering), call_next)
        await response(scope, receive, send)


class _Remembering:
    """Hands a request's body to the layer, and once more to what is inside it."""

    def __init__(self, receive: ReceiveMessage):
        self._receive = receive
        self._came: list[Message] = []

    async def __call__(self) -> Message:
        message = await self._receive()
        self._came.append(message)
        return message

    def again(self) -> ReceiveMessage:
        """Return what hands over all that came so far, then what else comes."""
        came = iter(self._came)

        async def receive() -> Message:
            for message in came:
                return message
            return await self._receive()

        return receive


class Pace:
    """Stands for the time module in the node's loop, which sleeps 3 s whenever there is no question.

    A coordinator that holds polls has let the node wait already. One that does not, because it is Flower's own or holds
    as many as it can, is asked as rarely as Flower does it.
    """

    def __init__(self, held: Callable[[], bool]):
        self._held = held

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the coordinator has held the last poll."""
        if not self._held():
            time.sleep(seconds)


QUICK = frozenset(
    {
        "flwr.supercore.protobuf.translation.get_protobuf_request",
        "flwr.supercore.dependencies.version.VersionDependency",
        "flwr.supercore.dependencies.runtime.get_runtime_state",
        "flwr.supercore.dependencies.runtime.get_runtime_handlers",
        "flwr.superlink.dependencies.linkstate.get_linkstate",
    }
)
"""Functions of Flower's, and classes whose objects are called like functions, by their full names."""

InThread = Callable[..., Awaitable[Any]]


def at_once_if_quick(in_thread: InThread) -> InThread:
    """Return a function that calls what is quick at once, and leaves everything else to a thread."""

    async def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if full_name(function) in QUICK:
            return function(*arguments, **options)
        return await in_thread(function, *arguments, **options)

    return call


def full_name(function: Any) -> str:
    """Return a function's name with its module's; of an object that is called like one, its class's."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"


FLEET_PREFIX = "/v1/fleet/"
RUNTIME = "/v1/runtime/"
NOT_FOR: dict[str, tuple[str, ...]] = {
    "ControlSensitiveResponseMiddleware": (FLEET_PREFIX, RUNTIME),
    "ControlAuthenticationMiddleware": (FLEET_PREFIX, RUNTIME),
    "ControlLicenseMiddleware": (FLEET_PREFIX, RUNTIME),
    "ControlEventLogMiddleware": (FLEET_PREFIX, RUNTIME),
    "RuntimeTracingMiddleware": (FLEET_PREFIX,),
    "FleetEventLogMiddleware": (RUNTIME,),
}
"""Layers of Flower's, and requests that they have nothing to do with. What is not named here sees every request: who a
node is, above all, is asked as ever."""

WHOLE = frozenset(
    f"{part}{name}"
    for part, names in {
        FLEET_PREFIX: "send-node-heartbeat get-run get-fab",
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
        self._app = app
        self._layer = make(app)
        self._past = past
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


HEARTBEAT_SECONDS = 10
"""How often Flower must hear of a node; silent for twice as long, it counts as gone (Flower's default is 30)."""
LOCKED_SECONDS = 60
"""How long the SuperLink waits for its database when many sites answer at once (Flower: 5 s, then one is lost)."""
STOPPING_SECONDS = 2
"""How long requests that are being answered may take when the SuperLink is stopped."""
RETRY_SECONDS = 0.2
"""How soon a part of a message that was announced, but is not there yet, is asked for again (Flower: 1 s, then 2)."""


def replace(*symbols: Symbol, by: Callable[[Any], Any]) -> bool:
    """Replace symbols of Flower, all or none, by what ``by`` makes of each; say whether that was done.

    When one is not as expected, a required one stops the program.
    """
    faults = [(symbol, fault) for symbol in symbols if (fault := symbol.fault())]
    if any(symbol.required for symbol, _ in faults):
        names = ", ".join(f"{symbol.name} as in {symbol.since} ({fault})" for symbol, fault in faults)
        sys.exit(f"this version of Flower has no {names}; fedgeom cannot keep foreign code out: stopping")
    if faults:
        return False
    for symbol in symbols:
        owner, name = symbol.place()
        setattr(owner, name, by(getattr(owner, name)))
    return True


def run_installed_server(bundle: Path) -> None:
    """Let the ServerApp process run the app in a folder that is installed here, whatever was submitted."""

    def ignore(*_: Any, **__: Any) -> Path:
        return bundle

    replace(flower.SERVERAPP_INSTALL, flower.SERVERAPP_FOLDER, by=lambda _: ignore)


class FilteredServer:
    """Stands for the web server's module in Flower's SuperLink: what is served passes our filter."""

    def __init__(self, server: Any):
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def run(self, app: Any, **options: Any) -> None:
        """Serve the application; a forwarded address is not believed, because the filter asks for the real one.

        Polls that are held end when the server does, not when they would. Not every request is a line in the log.
        """
        options |= {
            "proxy_headers": False,
            "access_log": False,
            "timeout_graceful_shutdown": STOPPING_SECONDS,
        }
        leave_out_of_searches()
        self._server.run(app=AccessFilter(with_limit(app, with_messages(app))), **options)


def leave_out_of_searches() -> None:
    """Let Python's search for garbage leave out what is here already: Flower's modules stay as long as the program.

    Each thorough search went through all of them, for 0.09 s, and there was one every ten or twenty questions.
    """
    gc.collect()
    gc.freeze()


def with_messages(app: Any) -> Any:
    """Put our layer in front of Flower's application, if both fit together."""
    factory = getattr(getattr(app, "state", None), "linkstate_factory", None)
    if factory is None or flower.LINK_READS.fault() or flower.LINK_STORES.fault():
        return app
    return MessageLayer(app, factory.state)


def with_limit(app: Any, inner: Any) -> Any:
    """Put a limit on what strangers send in front of Flower's application ``app``, within its other layers."""
    factory = getattr(getattr(app, "state", None), "linkstate_factory", None)
    return inner if factory is None else BodyLimit(inner, is_registered(factory.state))


def filter_requests() -> None:
    """Let only the sites' requests reach the SuperLink from other machines, and large ones only from known sites."""
    replace(flower.LINK_AUTHENTICATES, by=lambda authenticate: authenticate)  # required, and used as it is
    replace(flower.WEB_SERVER, by=FilteredServer)


def shorten_requests() -> bool:
    """Let requests go past layers that have nothing to do with them; say whether that can be done."""
    return replace(flower.LINK_LAYERS, by=lambda get: lambda: shortened(get()))


def look_up_at_once() -> bool:
    """Run trivial dependencies of FastAPI without a thread; return whether this can be done."""
    return replace(flower.LINK_THREADS, by=at_once_if_quick)


def retry_soon() -> None:
    """Fetch the parts of a message soon after they are there."""
    replace(flower.RETRY_DEFAULTS, by=lambda defaults: {**defaults, "initial_backoff": RETRY_SECONDS})


def wait_for_database() -> None:
    """Let a busy SuperLink be slow rather than lose messages."""
    waiting = {"busy_timeout": str(1000 * LOCKED_SECONDS)}
    replace(flower.DATABASE_SETTINGS, by=lambda settings: tuple((dict(settings) | waiting).items()))


def ask_for_known_replies() -> None:
    """Let a state in memory say nothing of a message that it has dropped, instead of failing."""

    def wrapped(get: Callable[..., Any]) -> Callable[..., Any]:
        def get_known(self: Any, message_ids: set[str], run_id: int) -> Any:
            try:
                return get(self, message_ids, run_id)
            except KeyError:
                return get(self, message_ids & self.get_message_ids_from_run_id(run_id), run_id)

        return get_known

    replace(flower.LINK_REPLIES, by=wrapped)


def beat_often() -> None:
    """Let the coordinator hear of the node more often, so that it notices sooner when it is gone."""
    replace(flower.NODE_HEARTBEAT, flower.SENT_HEARTBEAT, by=lambda _: HEARTBEAT_SECONDS)


def answer_in_node(answers: NodeAnswers) -> None:
    """Let the node have its questions answered, instead of waiting for a program that nobody starts."""
    replace(flower.NODE_STORES, by=lambda insert: insert)  # required, and used as it is
    replace(flower.NODE_ANSWERS, by=lambda push: answers.before(push, flower.NODE_STORES.value()))


def serve_nobody() -> bool:
    """Let the node open no port; say whether that can be done."""

    class Closed:
        """Stands for the server and for the thread in which it would run."""

        should_exit = force_exit = True

        def join(self, timeout: float = 0.0) -> None:
            """Has ended already."""

        def is_alive(self) -> bool:
            """Say no."""
            return False

    return replace(flower.NODE_SERVER, by=lambda _: lambda config, state_factory: (Closed(), Closed()))


def carry_for_node(carrier: Carrier) -> bool:
    """Let the node's polls be held, and small parts travel with their message; say whether that can be done."""
    pace = Pace(lambda: carrier.held)
    return replace(flower.NODE_CLIENT, by=lambda client: WithCarrier(client, carrier)) and replace(
        flower.NODE_CLOCK, by=lambda _: pace
    )


def carry_for_grid(carrier: Carrier) -> bool:
    """Let the coordinator's polls be held, and small parts travel with their message; say whether that can be done."""

    def wrapped(get_parts: Callable[..., Any]) -> Callable[..., Any]:
        def get_and_bring(message: Any) -> Any:
            parts = get_parts(message)
            carrier.bring((name, part.deflate()) for name, part in parts.items())
            return parts

        return get_and_bring

    return replace(flower.GRID_CLIENT, by=lambda client: WithCarrier(client, carrier)) and replace(
        flower.GRID_PARTS, by=wrapped
    )


def carry_for_executor(carrier: Carrier) -> bool:
    """Let the executor's polls be held; say whether that can be done."""
    return replace(flower.EXECUTOR_CLIENT, by=lambda client: WithCarrier(client, carrier))


def act_as_task() -> bool:
    """Let messages be made outside Flower's tasks, under a made-up number; say whether that can be done.

    Inside a task nothing changes.
    """
    unset = (flower.TASK_NUMBER, flower.TASK_RUN, flower.TASK_NODE)
    return replace(*unset, by=lambda number: 1 if number is None else number)

"""Every symbol of Flower, and of FastAPI under it, that fedgeom replaces or changes, and how it has to look for that.

Replaced symbols are Flower's private matter and may change with any release. So they all stand here, each with the
reason, and with what happens when it is not as expected: a *required* one stops the program, because without it
nothing is sure; any other is left alone, and something is slower. `fedgeom.engines.flower.patches` takes its places
from this table, and a test holds the installed Flower to it, row by row.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

Fault = Callable[[Any], str]
"""Says what is wrong with a value; nothing if it is as expected."""


@dataclass(frozen=True)
class Symbol:
    """One row of the table."""

    module: str
    name: str
    """Within the module; a dot leads to an attribute of what stands there."""
    fault_of: Fault
    why: str
    otherwise: str
    """What happens when it is not as expected."""
    required: bool = False
    usual: Any = None
    """Flower's own value, where our comments and measurements speak of it; of a dictionary, the part that matters."""
    since: str = "1.41"
    """The first Flower release in which we saw it as it is expected here."""

    def place(self) -> tuple[Any, str]:
        """Return where the symbol is set: an object and the attribute's name."""
        owner: Any = importlib.import_module(self.module)
        *path, name = self.name.split(".")
        for part in path:
            owner = getattr(owner, part)
        return owner, name

    def value(self) -> Any:
        """Return what stands there now."""
        return getattr(*self.place())

    def fault(self) -> str:
        """Say what is not as expected in the Flower that is installed; nothing if all is well."""
        try:
            value = self.value()
        except (ImportError, AttributeError) as error:
            return str(error)
        return self.fault_of(value)


def function(*parameters: str) -> Fault:
    """Expect a function that has these parameters."""

    def fault(value: Any) -> str:
        if not callable(value):
            return f"{value!r} is not a function"
        missing = sorted(set(parameters) - set(inspect.signature(value).parameters)) if parameters else []
        return f"it has no parameter {', '.join(missing)}" if missing else ""

    return fault


def module(name: str, **functions: Fault) -> Fault:
    """Expect this very module, with these functions."""

    def fault(value: Any) -> str:
        if not isinstance(value, ModuleType) or value is not importlib.import_module(name):
            return f"{value!r} is not the module {name}"
        faults = [
            f"{one}: {wrong}" for one, expect in functions.items() if (wrong := expect(getattr(value, one, None)))
        ]
        return "; ".join(faults)

    return fault


def seconds(value: Any) -> str:
    """Expect a positive whole number."""
    return "" if type(value) is int and value > 0 else f"{value!r} is not a whole number of seconds"


def number_under(key: str) -> Fault:
    """Expect a dictionary, or pairs that make one, with a number under this key."""

    def fault(value: Any) -> str:
        try:
            float(dict(value)[key])
        except (TypeError, ValueError, KeyError):
            return f"{value!r} has no number {key!r}"
        return ""

    return fault


def client_class(value: Any) -> str:
    """Expect a class of HTTP clients that take others into the chain of each call."""
    if not isinstance(value, type):
        return f"{value!r} is not a class"
    return function("interceptors")(getattr(value, "from_server_address", None))


def number_or_nothing(value: Any) -> str:
    """Expect a whole number, or nothing yet."""
    return "" if value is None or type(value) is int else f"{value!r} is neither a whole number nor nothing"


SERVERAPP = "flwr.superlink.runtime.run_serverapp"
NODE = "flwr.supernode.start_client_internal"
GRID = "flwr.superlink.grid.http_grid"
TASK = "flwr.supercore.task_identity"
NO_FOREIGN_CODE = "Flower ships an app's code to every node; a stranger's must neither be unpacked nor run"
STOPS = "the program stops"
MESSAGES_OUTSIDE = "messages can be made in Flower's tasks only; with the loopback engine there are none"
NO_LOOPBACK = "the loopback engine says that it does not fit the installed Flower; deployments do not need it"
WITH_THE_MESSAGE = (
    "small parts of a message travel with it: a question and its answer cost four requests, not sixteen"
)
MORE_REQUESTS = "every part of a message travels in a request of its own: everything takes longer"

NODE_ANSWERS = Symbol(
    NODE,
    "_push_messages",
    function("state", "object_store", "send", "push_object"),
    "a site runs the app that is installed with fedgeom, whatever was shipped: the node has the question answered "
    "before Flower waits for somebody who does",
    STOPS,
    required=True,
)
NODE_STORES = Symbol(
    NODE,
    "_insert_message",
    function("msg", "state", "store"),
    "the answer is stored where Flower looks for it",
    STOPS,
    required=True,
)
NODE_SERVER = Symbol(
    "flwr.supernode.cli.flower_supernode",
    "_start_supernode_http_api",
    function("config", "state_factory"),
    "whoever reaches a node's port on loopback can ask it for questions; nobody needs it, so nothing listens there",
    "the port is there, for this machine only, and nobody uses it",
)
NODE_CLIENT = Symbol(
    "flwr.supernode.fleet_http_connection",
    "FleetHttpClient",
    client_class,
    WITH_THE_MESSAGE,
    "the site looks for questions as rarely as Flower does, and part by part: every step takes longer",
)
GRID_CLIENT = Symbol(GRID, "RuntimeHttpClient", client_class, WITH_THE_MESSAGE, MORE_REQUESTS)
GRID_PARTS = Symbol(GRID, "get_all_nested_objects", function(), WITH_THE_MESSAGE, MORE_REQUESTS)
EXECUTOR_CLIENT = Symbol(
    "flwr.supercore.superexec.run_superexec",
    "RuntimeHttpClient",
    client_class,
    "the coordinator's executor asks every second whether there is something to start; it need not while it is held",
    "the SuperLink says no every second",
)
LINK_READS = Symbol(
    "flwr.supercore.corestate",
    "CoreState.get_object",
    function("run_id", "object_id"),
    "parts are attached to the message that they belong to; the function is used, not replaced",
    MORE_REQUESTS,
)
LINK_STORES = Symbol(
    "flwr.supercore.corestate",
    "CoreState.store_object",
    function("run_id", "session_id", "object_id", "object_content"),
    "parts that came with a message are stored; the function is used, not replaced",
    MORE_REQUESTS,
)
LINK_AUTHENTICATES = Symbol(
    "flwr.superlink.routers.fleet.node_auth",
    "authenticate_node",
    function("request"),
    "Flower reads and parses a whole request before it asks who sends it, so a stranger's 400 MB cost 800 MB of "
    "memory; the function is used before the body is read, not replaced",
    STOPS,
    required=True,
)
LINK_REPLIES = Symbol(
    "flwr.server.superlink.linkstate",
    "InMemoryLinkState.get_message_res",
    function("message_ids", "run_id"),
    "a state in memory fails when it is asked for replies to a message that it has dropped, because its time was up",
    "a run may break off when a site lets the deadline pass, and has to be resumed",
)
SERVERAPP_INSTALL = Symbol(
    SERVERAPP, "install_from_fab", function("fab_file", "skip_prompt"), NO_FOREIGN_CODE, STOPS, required=True
)
SERVERAPP_FOLDER = Symbol(
    SERVERAPP,
    "get_project_dir",
    function("fab_id", "fab_version", "fab_hash"),
    "a coordinator runs the app that is installed with fedgeom, whatever was submitted",
    STOPS,
    required=True,
)
WEB_SERVER = Symbol(
    "flwr.superlink.cli.flower_superlink",
    "uvicorn",
    module("uvicorn", run=function("app", "proxy_headers")),
    "control and runtime ask nobody who he is: other machines must reach the sites' part of the port only",
    STOPS,
    required=True,
)
LINK_LAYERS = Symbol(
    "flwr.superlink.main",
    "_get_middleware",
    function(),
    "each of nine layers wraps every request, and most have to do with one part of the port only",
    "every request takes the SuperLink longer",
)
LINK_THREADS = Symbol(
    "fastapi.dependencies.utils",
    "run_in_threadpool",
    function("func"),
    "what a request's handler needs is looked up by a thread each, although it only has to be returned",
    "every request takes the SuperLink longer",
)
NODE_CLOCK = Symbol(
    NODE,
    "time",
    module("time", sleep=function()),
    "the node sleeps 3 s after each look that found no question; with a poll that was held it has waited already",
    "the site looks for questions as rarely as Flower does: every step takes longer",
)
NODE_HEARTBEAT = Symbol(
    "flwr.supernode.fleet_http_connection",
    "HEARTBEAT_DEFAULT_INTERVAL",
    seconds,
    "a site that went away is noticed after two of the intervals that its node promises",
    "the loss of a site is noticed after a minute instead of twenty seconds",
    usual=30,
)
SENT_HEARTBEAT = Symbol(
    "flwr.supercore.heartbeat",
    "HEARTBEAT_DEFAULT_INTERVAL",
    seconds,
    "what the node promises (the row above) has to be kept: both are changed or none",
    "the loss of a site is noticed after a minute instead of twenty seconds",
    usual=30,
)
RETRY_DEFAULTS = Symbol(
    "flwr.supercore.inflatable.inflatable_utils",
    "pull_objects.__kwdefaults__",
    number_under("initial_backoff"),
    "a part of a message that was announced, but is not there yet, is asked for again after 1 s, then 2",
    "answers come a second or two later",
    usual={"initial_backoff": 1},
)
DATABASE_SETTINGS = Symbol(
    "flwr.supercore.sql_mixin",
    "SQLITE_PRAGMAS",
    number_under("busy_timeout"),
    "when many sites answer at once the database is locked for longer than 5 s, and an answer is lost",
    "such an answer is lost, and the site is asked again",
    usual={"busy_timeout": "5000"},
)
TASK_NUMBER = Symbol(TASK, "TaskIdentity._task_id", number_or_nothing, MESSAGES_OUTSIDE, NO_LOOPBACK)
TASK_RUN = Symbol(TASK, "TaskIdentity._run_id", number_or_nothing, MESSAGES_OUTSIDE, NO_LOOPBACK)
TASK_NODE = Symbol(TASK, "TaskIdentity._node_id", number_or_nothing, MESSAGES_OUTSIDE, NO_LOOPBACK)

TABLE = (
    NODE_ANSWERS,
    NODE_STORES,
    NODE_SERVER,
    NODE_CLIENT,
    GRID_CLIENT,
    GRID_PARTS,
    EXECUTOR_CLIENT,
    LINK_READS,
    LINK_STORES,
    LINK_AUTHENTICATES,
    LINK_REPLIES,
    SERVERAPP_INSTALL,
    SERVERAPP_FOLDER,
    WEB_SERVER,
    LINK_LAYERS,
    LINK_THREADS,
    NODE_CLOCK,
    NODE_HEARTBEAT,
    SENT_HEARTBEAT,
    RETRY_DEFAULTS,
    DATABASE_SETTINGS,
    TASK_NUMBER,
    TASK_RUN,
    TASK_NODE,
)
"""All of them."""

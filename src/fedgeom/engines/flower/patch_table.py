"""Every symbol of Flower that fedgeom replaces or changes, and how it has to look for that.

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


def a_list(value: Any) -> str:
    """Expect a list."""
    return "" if isinstance(value, list) else f"{value!r} is not a list"


def number_or_nothing(value: Any) -> str:
    """Expect a whole number, or nothing yet."""
    return "" if value is None or type(value) is int else f"{value!r} is neither a whole number nor nothing"


CLIENTAPP, SERVERAPP = "flwr.supernode.runtime.run_clientapp", "flwr.superlink.runtime.run_serverapp"
NODE = "flwr.supernode.start_client_internal"
TASK = "flwr.supercore.task_identity"
NO_FOREIGN_CODE = "Flower ships an app's code to every node; a stranger's must neither be unpacked nor run"
STOPS = "the program stops"
MESSAGES_OUTSIDE = "messages can be made in Flower's tasks only; with the loopback engine there are none"
NO_LOOPBACK = "the loopback engine says that it does not fit the installed Flower; deployments do not need it"

CLIENTAPP_INSTALL = Symbol(
    CLIENTAPP, "install_from_fab", function("fab_file", "skip_prompt"), NO_FOREIGN_CODE, STOPS, required=True
)
CLIENTAPP_FOLDER = Symbol(
    CLIENTAPP,
    "get_project_dir",
    function("fab_id", "fab_version", "fab_hash"),
    NO_FOREIGN_CODE,
    STOPS,
    required=True,
)
CLIENTAPP_LOAD = Symbol(
    CLIENTAPP,
    "get_load_client_app_fn",
    function("default_app_ref", "app_path", "multi_app"),
    "a site runs the app that is installed with fedgeom, whatever was shipped",
    STOPS,
    required=True,
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
NODE_CLOCK = Symbol(
    NODE,
    "time",
    module("time", sleep=function(), monotonic=function()),
    "the node sleeps 3 s between two looks for a question; while a run goes on it looks more often",
    "the site looks for questions as rarely as Flower does: every step takes longer",
)
NODE_FETCH = Symbol(
    NODE,
    "_pull_and_store_message",
    function("receive"),
    "the node waits without end for an answer whose process has died; with each question a watch begins anew",
    "such a site is connected and deaf until it is started again",
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
EXECUTOR_CLOCK = Symbol(
    "flwr.supercore.superexec.run_superexec",
    "time",
    module("time", sleep=function(), monotonic=function()),
    "a site's executor asks its own node often while a run goes on, and rarely when nothing happens",
    "it asks as often as its environment says, also when nothing happens",
)
EXECUTOR_START = Symbol(
    "flwr.supercore.superexec.executor.subprocess_executor",
    "subprocess",
    module("subprocess", Popen=function()),
    "a new Python for every question spends two seconds on imports; a fork of the executor does not",
    "every answer comes two seconds later",
)
EXIT_HANDLERS = Symbol(
    "flwr.supercore.exit.exit_handler",
    "registered_exit_handlers",
    a_list,
    "a forked process must not do the executor's clean-up when it ends: that would close the executor's connection",
    "processes are started instead of forked: every answer comes two seconds later",
)
TASK_NUMBER = Symbol(TASK, "TaskIdentity._task_id", number_or_nothing, MESSAGES_OUTSIDE, NO_LOOPBACK)
TASK_RUN = Symbol(TASK, "TaskIdentity._run_id", number_or_nothing, MESSAGES_OUTSIDE, NO_LOOPBACK)
TASK_NODE = Symbol(TASK, "TaskIdentity._node_id", number_or_nothing, MESSAGES_OUTSIDE, NO_LOOPBACK)

TABLE = (
    CLIENTAPP_INSTALL,
    CLIENTAPP_FOLDER,
    CLIENTAPP_LOAD,
    SERVERAPP_INSTALL,
    SERVERAPP_FOLDER,
    WEB_SERVER,
    NODE_CLOCK,
    NODE_FETCH,
    NODE_HEARTBEAT,
    SENT_HEARTBEAT,
    RETRY_DEFAULTS,
    DATABASE_SETTINGS,
    EXECUTOR_CLOCK,
    EXECUTOR_START,
    EXIT_HANDLERS,
    TASK_NUMBER,
    TASK_RUN,
    TASK_NODE,
)
"""All of them."""

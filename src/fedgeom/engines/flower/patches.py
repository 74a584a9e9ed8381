"""What fedgeom changes in a running Flower program; no other module sets anything in Flower's modules.

Flower ships the code of an app to every node, and whoever reaches the coordinator's port may submit a run. A site must
not run a stranger's code, and other machines must not control the coordinator: these changes are required, and a
program in which they cannot be made stops. The others make it quicker. Which symbols are changed, and how they
have to look, is in `fedgeom.engines.flower.patch_table`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedgeom.engines.flower import patch_table as flower
from fedgeom.engines.flower.access_filter import AccessFilter
from fedgeom.engines.flower.pacing import Pace
from fedgeom.engines.flower.patch_table import Symbol

HEARTBEAT_SECONDS = 10
"""How often Flower must hear of a node; silent for twice as long, it counts as gone (Flower's default is 30)."""
LOCKED_SECONDS = 60
"""How long the SuperLink waits for its database when many sites answer at once (Flower: 5 s, then one is lost)."""
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


def run_installed_client(make_app: Callable[[], Any], bundle: Path) -> None:
    """Let the ClientApp process run the app that is installed here, whatever was shipped."""

    def load(*_: Any, **__: Any) -> Any:
        return lambda *_: make_app()

    _ignore_bundle(bundle, flower.CLIENTAPP_INSTALL, flower.CLIENTAPP_FOLDER)
    replace(flower.CLIENTAPP_LOAD, by=lambda _: load)


def run_installed_server(bundle: Path) -> None:
    """Let the ServerApp process run the app in a folder that is installed here, whatever was submitted."""
    _ignore_bundle(bundle, flower.SERVERAPP_INSTALL, flower.SERVERAPP_FOLDER)


def _ignore_bundle(ours: Path, *symbols: Symbol) -> None:
    """Let the functions that unpack and find a shipped app do nothing but return the folder of ours."""

    def ignore(*_: Any, **__: Any) -> Path:
        return ours

    replace(*symbols, by=lambda _: ignore)


class FilteredServer:
    """Stands for the web server's module in Flower's SuperLink: what is served passes our filter."""

    def __init__(self, server: Any):
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def run(self, app: Any, **options: Any) -> None:
        """Serve the application; a forwarded address is not believed, because the filter asks for the real one."""
        self._server.run(app=AccessFilter(app), **options, proxy_headers=False)


def filter_requests() -> None:
    """Let only the sites' requests reach the SuperLink from other machines."""
    replace(flower.WEB_SERVER, by=FilteredServer)


def retry_soon() -> None:
    """Fetch the parts of a message soon after they are there."""
    replace(flower.RETRY_DEFAULTS, by=lambda defaults: {**defaults, "initial_backoff": RETRY_SECONDS})


def wait_for_database() -> None:
    """Let a busy SuperLink be slow rather than lose messages."""
    waiting = {"busy_timeout": str(1000 * LOCKED_SECONDS)}
    replace(flower.DATABASE_SETTINGS, by=lambda settings: tuple((dict(settings) | waiting).items()))


def beat_often() -> None:
    """Let the coordinator hear of the node more often, so that it notices sooner when it is gone."""
    replace(flower.NODE_HEARTBEAT, flower.SENT_HEARTBEAT, by=lambda _: HEARTBEAT_SECONDS)


def call_before_each_question(begin: Callable[[], None]) -> bool:
    """Have a function called before Flower's node fetches a question; say whether that can be done."""

    def wrapped(fetch: Callable[..., Any]) -> Callable[..., Any]:
        def begin_and_fetch(*arguments: Any, **options: Any) -> Any:
            begin()
            return fetch(*arguments, **options)

        return begin_and_fetch

    return replace(flower.NODE_FETCH, by=wrapped)


def pace_node(pace: Pace) -> bool:
    """Let Flower's node sleep at our pace; say whether that can be done."""
    return replace(flower.NODE_CLOCK, by=lambda _: pace)


def pace_executor(pace: Pace) -> bool:
    """Let Flower's executor sleep at our pace; say whether that can be done."""
    return replace(flower.EXECUTOR_CLOCK, by=lambda _: pace)


def start_programs_by(starter: Any) -> bool:
    """Let something else stand for the subprocess module in Flower's executor; say whether that can be done."""
    if flower.EXIT_HANDLERS.fault():  # or a forked process would clean up what is the executor's
        return False
    return replace(flower.EXECUTOR_START, by=lambda _: starter)


def forget_exit_handlers() -> None:
    """Forget, in a forked process, what its parent wanted to clean up in the end."""

    def emptied(handlers: list[Any]) -> list[Any]:
        handlers.clear()  # in place: Flower may hold on to the list
        return handlers

    replace(flower.EXIT_HANDLERS, by=emptied)


def act_as_task() -> bool:
    """Let messages be made outside Flower's tasks, under a made-up number; say whether that can be done.

    Inside a task nothing changes.
    """
    unset = (flower.TASK_NUMBER, flower.TASK_RUN, flower.TASK_NODE)
    return replace(*unset, by=lambda number: 1 if number is None else number)

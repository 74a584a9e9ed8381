"""The two apps of a Flower federation: a ClientApp that answers for a site, and a ServerApp that holds a conversation.

Flower starts a process for every message. Whatever a site remembers is in its own folder. Errors reach Flower without
their text, which may quote the site's data.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fedgeom.engines.flower.engine import INTRODUCE, NUMBER_BYTES, QUESTION, RECORD, FlowerGrid
from fedgeom.errors import DecodeError, InputError, ProtocolError, printable
from fedgeom.version import __version__

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

log = logging.getLogger(__name__)

SITE_SETTING = "site"
"""By what name a node's own settings say where the site's folder is."""
REFUSED = 2
"""Flower's code for an app that raised an error: it is not asked again."""
FAILED = "the site failed while it was answering; its own log says why"


def make_client_app(
    answer: Callable[[str, bytes], bytes], introduce: Callable[[str, bytes], tuple[str, bytes]]
) -> ClientApp:
    """Return the ClientApp of a site.

    ``answer`` gets the place of the site, from the node's own settings, and the request; ``introduce`` gets the place
    and a number, and returns the site's name and its signature.
    """
    from flwr.clientapp import ClientApp  # optional, 2 s

    app = ClientApp()

    @app.query(QUESTION.split(".", 1)[1])
    def query(message: Message, context: Context) -> Message:
        return _replied(message, lambda: {"answer": answer(_place(context), _bytes_in(message, "request"))})

    @app.query(INTRODUCE.split(".", 1)[1])
    def say_who(message: Message, context: Context) -> Message:
        def said() -> dict[str, Any]:
            number = _bytes_in(message, "number")
            if len(number) != NUMBER_BYTES:
                raise ProtocolError(f"an introduction needs a number of {NUMBER_BYTES} bytes")
            name, signature = introduce(_place(context), number)
            return {"name": name, "signature": signature}

        return _replied(message, said)

    return app


def _place(context: Context) -> str:
    try:
        return str(context.node_config[SITE_SETTING])
    except KeyError as error:
        raise InputError(
            f"the node does not say whose site it is; start it with --node-config '{SITE_SETTING}=\"/path/of/folder\"'"
        ) from error


def _bytes_in(message: Message, key: str) -> bytes:
    try:
        found = message.content.config_records[RECORD][key]
    except KeyError as error:
        raise DecodeError("the Flower message holds no fedgeom question") from error
    if not isinstance(found, bytes):
        raise DecodeError("the Flower message's question is not bytes")
    return found


def _replied(message: Message, say: Callable[[], dict[str, Any]]) -> Message:
    """Return the reply to a message, or Flower's kind of error, without its text."""
    from flwr.app import ConfigRecord, Error, RecordDict  # optional, 2 s
    from flwr.app import Message as FlowerMessage

    try:
        return FlowerMessage(content=RecordDict({RECORD: ConfigRecord(say())}), reply_to=message)
    except DecodeError as error:
        reason = f"refused: {error} (the site runs fedgeom {__version__})"
    except Exception:  # its text may quote the data, and Flower would send it
        log.error("the question could not be answered\n%s", printable(traceback.format_exc(), lines=True))
        reason = FAILED
    return FlowerMessage(Error(REFUSED, reason), reply_to=message)


def make_server_app(conduct: Callable[[Mapping[str, Any], FlowerGrid], None]) -> ServerApp:
    """Return the ServerApp; ``conduct`` gets the run's settings and the way to the nodes."""
    from flwr.serverapp import ServerApp  # optional, 2 s

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        conduct(context.run_config, grid)

    return app

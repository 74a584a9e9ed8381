"""The site's end of the Flower engine: a ClientApp that hands each question to a function and its answer back.

Flower starts a new process for every message; what a site remembers travels in the Flower context, as the function
that answers wants it carried. Errors reach Flower without their text, which may quote the site's data.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedgeom.engines.flower.commands import JOB_SETTING, SITE_SETTING
from fedgeom.engines.flower.engine import QUESTION, RECORD, FlowerGrid
from fedgeom.engines.flower.nodes import INTRODUCE, introduce_message
from fedgeom.errors import DecodeError, printable
from fedgeom.version import __version__

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid as FlowerGrid
    from flwr.serverapp import ServerApp


log = logging.getLogger(__name__)

REFUSED = 2
"""Flower's error code for an app that refused or failed."""
FAILED = "the site failed while it was answering; its own log says why"

Answer = Callable[[bytes, bytes | None], tuple[bytes, bytes]]
"""From a request and the memory kept so far to the answer and the memory to keep."""


def make_client_app(
    answer: Callable[[str, bytes, bytes | None], tuple[bytes, bytes]],
    introduce: Callable[[str, bytes], tuple[str, bytes]],
) -> ClientApp:
    """Return the ClientApp of a site.

    ``answer`` gets the place of the site, from the node's own settings, the request and what was carried since the last
    answer; ``introduce`` gets the place and a number, and returns the site's name and its signature.
    """
    from flwr.clientapp import ClientApp  # optional, 2 s

    app = ClientApp()

    @app.query(QUESTION.split(".", 1)[1])
    def query(message: Message, context: Context) -> Message:
        place = str(context.node_config[SITE_SETTING])
        try:
            return answer_message(message, context, lambda request, kept: answer(place, request, kept))
        except DecodeError as error:
            return refuse_message(message, f"refused: {error} (the site runs fedgeom {__version__})")
        except Exception:  # its text may quote the data, and Flower would send it
            log.error("the question could not be answered\n%s", printable(traceback.format_exc(), lines=True))
            return refuse_message(message, FAILED)

    @app.query(INTRODUCE.split(".", 1)[1])
    def say_who(message: Message, context: Context) -> Message:
        place = str(context.node_config[SITE_SETTING])
        try:
            return introduce_message(message, lambda number: introduce(place, number))
        except Exception:
            log.error("the site could not introduce itself\n%s", printable(traceback.format_exc(), lines=True))
            return refuse_message(message, FAILED)

    return app


def answer_message(message: Message, context: Context, answer: Answer) -> Message:
    """Answer one Flower message, keeping the site's memory in the Flower context."""
    from flwr.app import ConfigRecord, RecordDict  # optional, 2 s
    from flwr.app import Message as FlowerMessage

    try:
        request = message.content.config_records[RECORD]["request"]
    except KeyError as error:
        raise DecodeError("the Flower message holds no fedgeom question") from error
    if not isinstance(request, bytes):
        raise DecodeError("the Flower message's question is not bytes")
    state = context.state.config_records
    kept: Any = state[RECORD].get("memory") if RECORD in state else None
    reply, memory = answer(request, kept if isinstance(kept, bytes) and kept else None)
    context.state[RECORD] = ConfigRecord({"memory": memory})
    return FlowerMessage(content=RecordDict({RECORD: ConfigRecord({"answer": reply})}), reply_to=message)


def refuse_message(message: Message, reason: str) -> Message:
    """Return Flower's kind of answer for a question that could not even be read."""
    from flwr.app import Error  # optional, 2 s
    from flwr.app import Message as FlowerMessage

    return FlowerMessage(Error(REFUSED, reason), reply_to=message)


def make_server_app(conduct: Callable[[str, FlowerGrid], None]) -> ServerApp:
    """Return the ServerApp; ``conduct`` gets the job's name, from the run's settings, and the way to the nodes."""
    from flwr.serverapp import ServerApp  # optional, 2 s

    app = ServerApp()

    @app.main()
    def main(grid: FlowerGrid, context: Context) -> None:
        conduct(str(context.run_config.get(JOB_SETTING, "")), grid)

    return app

"""fedgeom inside a Flower federation, by Flower's public interface alone: ServerApp, Grid, ClientApp.

Each question is one Flower message, each answer a reply to one. The coordinator's end, `FlowerEngine`, runs inside a
ServerApp. Flower numbers its nodes, and a run wants sites by their names: each node is asked for its name, which counts
with a signature only. The ClientApp answers for a site; Flower starts a process for every message, so whatever a site
remembers is in its own folder. Errors reach Flower without their text, which may quote the site's data.

Folders, jobs and methods come in as functions, from `fedgeom.deploy.flower`.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fedgeom.crypto.keys import Identity, verify
from fedgeom.errors import DecodeError, InputError, ProtocolError, printable
from fedgeom.federation.coordinator import Lost
from fedgeom.version import __version__

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp


RECORD = "fedgeom"
"""The name of our record in Flower's messages."""
QUESTION = "query.fedgeom"
INTRODUCE = "query.introduce"
"""The message types; our ClientApp answers no other."""
PURPOSE = "introduction"
"""What the signature under an introduction is for."""
NUMBER_BYTES = 32

POLL_SECONDS = 0.5
"""How often the coordinator looks for answers."""
LOOK_SECONDS = 2.0
"""How often it looks who is connected while it waits."""
INTRODUCTION_SECONDS = 60.0
"""How long a node may take to say its name."""
MOST_INTRODUCTIONS = 3
"""How often a node is asked for its name that does not say it."""
MOST_TIMES = 5
"""How often one question is put to a site that comes and goes."""
GONE = {3, 4, 5, 8}
"""Flower's codes of errors that another try may not meet: a message or a node is gone, a process died."""


class FlowerGrid(Protocol):
    """What we use of Flower's grid, by which a ServerApp reaches the nodes."""

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are connected."""

    def push_messages(self, messages: Iterable[Any]) -> Iterable[str | None]:
        """Send messages and return their numbers."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
        """Return the replies that came to these messages."""


def need_flower() -> None:
    """Say how to install Flower when it is missing."""
    try:
        import flwr  # noqa: F401
    except ImportError as error:
        raise InputError("Flower is not installed: pip install 'fedgeom[flower]'") from error


@dataclass
class _Asked:
    """A question on its way: how it was sent, and since when the site has been away."""

    messages: set[str] = field(default_factory=set)
    node: int | None = None
    times: int = 0
    repeated: bool = False
    away: float | None = None
    trouble: str = "the site is not connected"


class FlowerEngine:
    """Carries questions to Flower nodes and answers back, each with a deadline.

    A question may be put again, to a site whose process died, or which came back under another number, or once half of
    the deadline has passed (a message may get lost on its way): the site gives the same answer again, from what it
    remembers. A site that is away has ``grace`` seconds to come back.
    """

    name = "flower"

    def __init__(
        self,
        grid: FlowerGrid,
        names: Collection[str],
        look: Callable[[], Mapping[str, int]],
        *,
        deadline: float,
        grace: float = 60.0,
        poll: float = POLL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        """Prepare it; ``look`` returns which sites are connected now, and as which nodes."""
        self._grid = grid
        self._names = tuple(sorted(names))
        self._look = look
        self._deadline = deadline
        self._grace = grace
        self._poll = poll
        self._clock = clock
        self._sleep = sleep
        self._question = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self._names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Yield answers as they come; what has not come at the deadline is lost."""
        self._question += 1
        until = self._clock() + self._deadline
        waiting = {name: _Asked() for name in requests}
        looked = -math.inf
        while waiting and self._clock() < until:
            if self._clock() >= looked + LOOK_SECONDS:
                looked = self._clock()
                self._ask(requests, waiting, until)
                for name in [name for name, asked in waiting.items() if self._given_up(asked)]:
                    yield name, Lost(waiting.pop(name).trouble)
            sent = {message: name for name, asked in waiting.items() for message in asked.messages}
            answered = False
            for reply in self._grid.pull_messages(list(sent)) if sent else ():
                message = reply.metadata.reply_to_message_id
                name = sent.get(message, "")
                if name not in waiting:
                    continue
                if reply.has_error() and reply.error.code in GONE:
                    waiting[name].messages.discard(message)
                    waiting[name].trouble = trouble_of(reply)
                    continue
                del waiting[name]
                answered = True
                yield name, read_reply(reply)
            if waiting and not answered:
                self._sleep(self._poll)
        for name in waiting:
            yield name, Lost(f"no answer within {self._deadline:g} s")

    def _ask(self, requests: Mapping[str, bytes], waiting: Mapping[str, _Asked], until: float) -> None:
        """Put the question to all who have not got it, or who have been away since they got it."""
        here = self._look()
        now = self._clock()
        new = []
        for name, asked in waiting.items():
            if name not in here:
                asked.away = now if asked.away is None else asked.away
                continue
            returned = asked.away is not None or asked.node != here[name]
            asked.away = None
            silent = not asked.repeated and until - now <= self._deadline / 2
            if (silent or returned or not asked.messages) and asked.times < MOST_TIMES:
                asked.repeated |= silent
                asked.node = here[name]
                asked.times += 1
                new.append(name)
        for name, message in zip(new, self._push(requests, new, here, until - now), strict=True):
            if message:
                waiting[name].messages.add(message)
            else:
                waiting[name].trouble = "Flower did not take the question"
                waiting[name].times = MOST_TIMES

    def _push(
        self, requests: Mapping[str, bytes], names: Sequence[str], here: Mapping[str, int], seconds: float
    ) -> Sequence[str | None]:
        group = str(self._question)
        messages = [
            make_message({"request": requests[name]}, here[name], QUESTION, seconds, group=group) for name in names
        ]
        taken = list(self._grid.push_messages(messages)) if messages else []
        return taken if len(taken) == len(names) else [None] * len(names)  # Flower takes all or, too large, none

    def _given_up(self, asked: _Asked) -> bool:
        if asked.away is not None:
            return self._clock() - asked.away >= self._grace
        return not asked.messages and asked.times >= MOST_TIMES


def make_message(content: Mapping[str, Any], node: int, kind: str, seconds: float, *, group: str = "") -> Message:
    """Return a Flower message that holds our record."""
    from flwr.app import ConfigRecord, Message, RecordDict  # optional, 2 s

    records = RecordDict({RECORD: ConfigRecord(dict(content))})
    return Message(content=records, dst_node_id=node, message_type=kind, ttl=seconds, group_id=group)


def trouble_of(reply: Message) -> str:
    """Say why a site could not answer."""
    return f"the site could not answer: {printable(reply.error.reason or f'Flower error {reply.error.code}')}"


def read_reply(reply: Message) -> bytes | Lost:
    """Take the answer out of a Flower message, or the reason why there is none."""
    if reply.has_error():
        return Lost(trouble_of(reply))
    try:
        answer = reply.content.config_records[RECORD]["answer"]
    except KeyError:
        return Lost("the site's reply holds no answer")
    return answer if isinstance(answer, bytes) else Lost("the site's reply holds no bytes")


def sign_introduction(identity: Identity, name: str, number: bytes) -> bytes:
    """Return the proof that whoever holds this identity, under this name, got this number."""
    return identity.sign(PURPOSE, number, name.encode())


def read_introduction(reply: Message, number: bytes, roster: Mapping[str, bytes]) -> str | None:
    """Return the name in a reply if the signature proves it, else None."""
    if reply.has_error() or RECORD not in reply.content.config_records:
        return None
    record = reply.content.config_records[RECORD]
    name = record.get("name")
    signature = record.get("signature")
    if not isinstance(name, str) or not isinstance(signature, bytes) or name not in roster:
        return None
    try:
        verify(roster[name], signature, PURPOSE, number, name.encode(), signer=name)
    except ProtocolError:
        return None
    return name


class Introductions:
    """Says which connected node is which site: each is asked, a few times at most; strangers are left out."""

    def __init__(
        self,
        grid: FlowerGrid,
        roster: Mapping[str, bytes],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._grid = grid
        self._roster = roster
        self._clock = clock
        self._sleep = sleep
        self._known: dict[int, str] = {}
        self._times: dict[int, int] = {}

    def __call__(self) -> dict[str, int]:
        """Return the nodes of the sites that are connected now, by name."""
        nodes = list(self._grid.get_node_ids())
        new = [node for node in nodes if node not in self._known and self._times.get(node, 0) < MOST_INTRODUCTIONS]
        for node in new:
            self._times[node] = self._times.get(node, 0) + 1
        self._known |= self._ask(new)
        return {self._known[node]: node for node in nodes if node in self._known}

    def _ask(self, nodes: Sequence[int]) -> dict[int, str]:
        """Ask nodes for their names; those that do not answer, or cannot prove who they are, are left out."""
        if not nodes:
            return {}
        numbers = {node: secrets.token_bytes(NUMBER_BYTES) for node in nodes}
        messages = [
            make_message({"number": number}, node, INTRODUCE, INTRODUCTION_SECONDS)
            for node, number in numbers.items()
        ]
        sent = zip(self._grid.push_messages(messages), nodes, strict=False)
        waiting = {message: node for message, node in sent if message}
        found: dict[int, str] = {}
        until = self._clock() + INTRODUCTION_SECONDS
        while waiting and self._clock() < until:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                name = None if node is None else read_introduction(reply, numbers[node], self._roster)
                if node is not None and name is not None:
                    found[node] = name
            if waiting:
                self._sleep(POLL_SECONDS)
        return found


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

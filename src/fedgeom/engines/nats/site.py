"""A site's end of the NATS engine: it hears questions, has them answered one after another, and hands answers out.

It reads nothing of a question: the process that answers has limited memory and may die, this one may not.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from fedgeom.engines.answerer import AnswererDiedError, leave_after_this
from fedgeom.engines.nats.link import (
    HOLD,
    PART,
    AnswerPart,
    AnswerReady,
    AskSite,
    AwaitAnswer,
    Connection,
    DropAnswer,
    Endpoint,
    FetchPart,
    LinkMessage,
    LookAtSite,
    NoAnswer,
    NotKnown,
    PartTaken,
    PutPart,
    Request,
    SiteBusy,
    SiteIsHere,
    StillWorking,
    read_request,
    subject_of,
)
from fedgeom.errors import DecodeError, printable
from fedgeom.version import __version__

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = logging.getLogger(__name__)

MOST_HELD = 32
"""How many questions a site holds at a time, of as many runs: those that nobody asked about for longest give way."""
HOLD_BYTES = 4
"""Questions and answers together may take so many times the largest message."""
FORGET_SECONDS = 900.0
"""After how long nobody fetches an answer any more; put again, the site answers from what it remembers."""


class AnswerOutcome(msgspec.Struct, array_like=True):
    """What comes from the process that answers: an answer, or why there is none."""

    answer: bytes = b""
    refused: str = ""


FAILED = "the site failed while it was answering; its own log says why"


def answer_with(answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return the function that answers, in the process that does: from a question to an encoded `AnswerOutcome`.

    Errors leave without their text, which may quote the site's data.
    """

    def outcome(question: bytes) -> AnswerOutcome:
        try:
            return AnswerOutcome(answer=answer(question))
        except DecodeError as error:
            return AnswerOutcome(refused=f"refused: {error} (the site runs fedgeom {__version__})")
        except Exception:
            log.error("the question could not be answered\n%s", printable(traceback.format_exc(), lines=True))
            leave_after_this()
            return AnswerOutcome(refused=FAILED)

    return lambda question: msgspec.msgpack.encode(outcome(question))


@dataclass
class HeldQuestion:
    """A question that came, whole or in parts, and its answer."""

    size: int
    body: bytearray
    missing: set[int]
    """The parts that have yet to come, by where they begin."""
    asked: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)
    reply: AnswerReady | NoAnswer | None = None
    answer: bytes = b""
    touched: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class LinkState:
    """How a site's link stands."""

    trouble: str
    """Why it is not connected; nothing where it is."""
    waiting: int
    last_question: float
    """When the last question came, in seconds since 1970; 0: none yet."""
    deaths: int = 0
    """How often a process that answered has died."""


class SiteLink:
    """Connects a site to its coordinator and has its questions answered."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        answer: Callable[[bytes], bytes],
        *,
        largest: int,
        told: Callable[[LinkState], None] = lambda state: None,
    ):
        """Prepare it.

        ``answer`` is called in a thread, one question at a time, and returns an encoded `AnswerOutcome`; questions of
        more than ``largest`` bytes are refused. ``told`` is told how things stand, whenever that changes.
        """
        self._name = name
        self._answer = answer
        self._largest = largest
        self._told = told
        self._connection = Connection(
            endpoint, name=f"site {name}", opened=self._subscribe, told=self._connection_changed
        )
        self._held: dict[bytes, HeldQuestion] = {}
        self._worker = ThreadPoolExecutor(1, "answers")
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = time.time()
        self._state = LinkState("not connected yet", 0, 0.0)
        self._failure: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Stay connected and have questions answered, until cancelled or until nothing can be answered any more."""
        self._failure = asyncio.get_running_loop().create_future()
        keeping = asyncio.create_task(self._connection.keep())
        try:
            await asyncio.wait({keeping, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            for one in (keeping, self._failure):
                if one.done():
                    one.result()
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            self._worker.shutdown(wait=False, cancel_futures=True)

    async def _subscribe(self, client: Client) -> None:
        await client.subscribe(subject_of(self._name), cb=self._received)

    async def _received(self, message: Msg) -> None:
        """Take a request; whoever waits for an answer does so in a task of its own."""
        try:
            request = read_request(message.data)
        except (msgspec.DecodeError, ValueError):
            await self._reply(message, NoAnswer("refused: not a message of fedgeom's engine by NATS"))
            return
        self._forget_old()
        if isinstance(request, AskSite | AwaitAnswer):
            waiting = asyncio.create_task(self._when_done(message, request))
            self._tasks.add(waiting)
            waiting.add_done_callback(self._tasks.discard)
        elif isinstance(request, DropAnswer):
            self._drop(request.number)
        else:
            await self._reply(message, self._at_once(request))

    def _at_once(self, request: Request) -> LinkMessage:
        """Return the reply to a request that needs no waiting."""
        if isinstance(request, LookAtSite):
            return SiteIsHere(self._name, self._started, __version__, self._waiting())
        if isinstance(request, PutPart):
            return self._take_part(request)
        held = self._held.get(request.number)
        if held is None or held.reply is None or not isinstance(request, FetchPart):
            return NotKnown()
        held.touched = time.monotonic()
        return AnswerPart(held.answer[request.at : request.at + PART])

    def _take_part(self, part: PutPart) -> LinkMessage:
        """Put a part of a question in its place."""
        held = self._begin(part.number, part.size)
        if isinstance(held, NoAnswer | SiteBusy):
            return held
        length = min(PART, held.size - part.at)
        if part.size != held.size or part.at % PART or len(part.part) != length:
            return NoAnswer("refused: a part of the question does not fit")
        held.touched = time.monotonic()
        if part.at in held.missing:
            held.body[part.at : part.at + length] = part.part
            held.missing.discard(part.at)
        return PartTaken()

    def _begin(self, number: bytes, size: int) -> HeldQuestion | NoAnswer | SiteBusy:
        """Return a question that is held, or make room for a new one."""
        if number in self._held:
            return self._held[number]
        if size > self._largest:
            return NoAnswer(f"refused: a question of {size:,} bytes; the site's policy allows {self._largest:,}")
        if not self._make_room(size):
            return SiteBusy()
        made = HeldQuestion(size, bytearray(size), set(range(0, size, PART)))
        self._held[number] = made
        return made

    def _make_room(self, size: int) -> bool:
        """Let go of answers that were not asked for lately, until there is room; say whether there is."""
        idle = [number for number, held in self._held.items() if held.done.is_set() or not held.asked]
        idle.sort(key=lambda number: self._held[number].touched, reverse=True)
        while len(self._held) >= MOST_HELD or self._bytes() + size > HOLD_BYTES * self._largest:
            if not idle:
                return False
            self._drop(idle.pop())
        return True

    def _bytes(self) -> int:
        return sum(len(held.body) + len(held.answer) for held in self._held.values())

    async def _when_done(self, message: Msg, request: AskSite | AwaitAnswer) -> None:
        """Reply with the answer, or after a while that there is none yet."""
        await self._reply(message, await self._outcome(request))

    async def _outcome(self, request: AskSite | AwaitAnswer) -> LinkMessage:
        if isinstance(request, AskSite):
            begun = self._begin(request.number, request.size)
            if isinstance(begun, NoAnswer | SiteBusy):
                return begun
            held = begun
            if not held.asked:
                if request.body and len(request.body) == held.size:
                    held.body = bytearray(request.body)
                    held.missing.clear()
                if held.missing:
                    return NotKnown()
                if hashlib.sha256(held.body).digest() != request.hash:
                    self._drop(request.number)
                    return NotKnown()
                self._start(held)
        else:
            known = self._held.get(request.number)
            if known is None or not known.asked:
                return NotKnown()
            held = known
        held.touched = time.monotonic()
        try:
            await asyncio.wait_for(held.done.wait(), HOLD)
        except TimeoutError:
            return StillWorking()
        assert held.reply is not None
        if isinstance(held.reply, NoAnswer):
            self._drop(request.number)  # put again, the question is to be worked on again
        return held.reply

    def _start(self, held: HeldQuestion) -> None:
        held.asked = True
        task = asyncio.create_task(self._work(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._tell(last_question=time.time())

    async def _work(self, held: HeldQuestion) -> None:
        """Have a question answered, after those that came before it."""
        question = bytes(held.body)
        held.body = bytearray()
        try:
            data = await asyncio.get_running_loop().run_in_executor(self._worker, self._answer, question)
            outcome = msgspec.msgpack.decode(data, type=AnswerOutcome)
            del data
        except AnswererDiedError as error:
            held.reply = NoAnswer(str(error), again=True)
            self._tell(died=True)
        except BaseException as error:  # nothing can be answered any more: whoever runs this starts anew
            if self._failure is not None and not self._failure.done():
                self._failure.set_exception(error)
            return
        else:
            if outcome.refused:
                held.reply = NoAnswer(outcome.refused)
            else:
                held.answer = outcome.answer
                size = len(held.answer)
                inline = held.answer if size <= PART else b""
                held.reply = AnswerReady(size, hashlib.sha256(held.answer).digest(), inline)
        held.done.set()
        self._tell()

    def _drop(self, number: bytes) -> None:
        """Let go of a question, unless it is being worked on."""
        held = self._held.get(number)
        if held is not None and (held.done.is_set() or not held.asked):
            del self._held[number]

    def _forget_old(self) -> None:
        since = time.monotonic() - FORGET_SECONDS
        for number in [number for number, held in self._held.items() if held.touched < since]:
            self._drop(number)

    async def _reply(self, message: Msg, reply: LinkMessage) -> None:
        from nats import errors  # optional

        if message.reply:
            with contextlib.suppress(errors.Error, OSError):  # the connection is gone: whoever asked asks again
                await message.respond(msgspec.msgpack.encode(reply))

    def _waiting(self) -> int:
        return sum(held.asked and not held.done.is_set() for held in self._held.values())

    def _connection_changed(self, trouble: str) -> None:
        self._tell(trouble=trouble)

    def _tell(self, *, trouble: str | None = None, last_question: float = 0.0, died: bool = False) -> None:
        before = self._state
        self._state = LinkState(
            before.trouble if trouble is None else trouble,
            self._waiting(),
            last_question or before.last_question,
            before.deaths + died,
        )
        if self._state != before:
            self._told(self._state)

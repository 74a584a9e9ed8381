"""The coordinator's end of the NATS engine: a question to each site, answers as they come, each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import queue
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fedgeom.engines.nats.link import (
    NUMBER_BYTES,
    PART,
    PART_SECONDS,
    SILENT,
    AnswerPart,
    AnswerReady,
    AskSite,
    AwaitAnswer,
    Connection,
    DropAnswer,
    Endpoint,
    FetchPart,
    LookAtSite,
    NoAnswer,
    NobodyThereError,
    NotConnectedError,
    NotKnown,
    PartTaken,
    PutPart,
    Reply,
    Request,
    SiteBusy,
    SiteIsHere,
    StillWorking,
    subject_of,
)
from fedgeom.errors import InputError, printable
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import LARGEST_MESSAGE, Buffer

if TYPE_CHECKING:
    from nats.aio.client import Client

PARTS_AT_ONCE = 4
"""How many parts of one answer are on their way at a time; more would not be quicker, and fill the server's memory."""
MOST_PARTS = 16
"""How many parts of all questions and answers are on their way at a time."""
LARGE_AT_ONCE = 2
"""How many long answers may be fetched, or wait here to be used, at a time; the sites hold the others."""
MOST_TIMES = 5
"""How often one question is put to a site whose answering process dies of it."""
LOOK_AGAIN = 0.5
"""After how many seconds a site that is away is looked for again."""
ABSENT = "the site is not connected"

T = TypeVar("T")
Outcome = tuple[str, Buffer | Lost | BaseException, bool]
"""A site's name, what came of it, and whether it takes one of the places for long answers."""


class NatsLink:
    """A connection that lives in a thread of its own; leaving the context ends it."""

    def __init__(self, endpoint: Endpoint, *, name: str = "coordinator"):
        self._trouble = "not connected yet"
        self._connection = Connection(endpoint, name=name, opened=_nothing, told=self._hear)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
        self._keeping: asyncio.Task[None] | None = None
        self.room = asyncio.Semaphore(MOST_PARTS)
        """Limits the parts that are on their way, to and from all sites together."""

    def __enter__(self) -> NatsLink:
        self._thread.start()

        async def begin() -> None:
            self._keeping = asyncio.create_task(self._connection.keep())

        self.call(begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def end() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._loop.is_running():
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the connection's thread, and wait for it."""
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done in the connection's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def soon(self, act: Callable[[], object]) -> None:
        """Have something done in the connection's thread that takes no time."""
        self._loop.call_soon_threadsafe(act)

    @property
    def client(self) -> Client:
        """The client library's connection, if there is one now; to be used in the connection's thread only."""
        return self._connection.client

    @property
    def trouble(self) -> str:
        """Why there is no connection; nothing where there is one."""
        return self._trouble

    def look(self, names: Collection[str], seconds: float = 5.0) -> dict[str, SiteIsHere]:
        """Return those of the named sites that are connected, with what they say of themselves."""

        async def all_of_them() -> dict[str, SiteIsHere]:
            found = await asyncio.gather(*(self._look(name, seconds) for name in names))
            return {name: one for name, one in zip(names, found, strict=True) if one is not None}

        return self.call(all_of_them())

    async def request(self, name: str, message: Request, seconds: float) -> Reply:
        """Put a request to a site; see `Connection.request`."""
        return await self._connection.request(subject_of(name), message, seconds)

    async def tell(self, name: str, message: Request) -> None:
        """Tell a site something to which there is no reply; that it may get lost is as good."""
        with contextlib.suppress(Exception):
            await self.client.publish(subject_of(name), msgspec.msgpack.encode(message))

    async def _look(self, name: str, seconds: float) -> SiteIsHere | None:
        try:
            reply = await self.request(name, LookAtSite(), seconds)
        except (NobodyThereError, NotConnectedError, TimeoutError, msgspec.DecodeError):
            return None
        return reply if isinstance(reply, SiteIsHere) else None

    def _hear(self, trouble: str) -> None:
        self._trouble = trouble


async def _nothing(_: object) -> None:
    """Do nothing with a new connection."""


class NatsEngine:
    """Carries questions to sites by NATS, each with a deadline.

    A question has a number, by which a site knows one that it works on already: so it can be put again whenever a
    reply is missing. A site that is away has ``grace`` seconds to come back.
    """

    name = "nats"

    def __init__(
        self,
        link: NatsLink,
        names: Collection[str],
        *,
        deadline: float,
        grace: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._link = link
        self._names = tuple(sorted(names))
        self._deadline = deadline
        self._grace = grace
        self._clock = clock

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self._names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield answers as they come; what has not come at the deadline is lost."""
        outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        strangers = set(requests) - set(self._names)
        if strangers:
            raise InputError(
                f"there are no sites {', '.join(sorted(strangers))}; there are {', '.join(self._names)}"
            )
        places = asyncio.Semaphore(LARGE_AT_ONCE)
        going = self._link.begin(self._ask_all(requests, places, outcomes))
        try:
            for _ in requests:
                name, outcome, takes_place = outcomes.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                yield name, outcome
                del outcome  # a long one is not kept while the next is fetched
                if takes_place:
                    self._link.soon(places.release)
        finally:
            going.cancel()

    async def _ask_all(
        self, requests: Mapping[str, bytes], places: asyncio.Semaphore, outcomes: queue.SimpleQueue[Outcome]
    ) -> None:
        until = self._clock() + self._deadline
        hashes = {id(request): hashlib.sha256(request).digest() for request in requests.values()}

        async def ask(name: str, request: bytes) -> None:
            asked = SiteQuestion(self._link, name, request, hashes[id(request)], places)
            try:
                outcome = await asked.answer(until, self._deadline, self._grace, self._clock)
            except Exception as error:  # a fault of this program: whoever waits must hear of it
                outcomes.put((name, error, False))
            else:
                outcomes.put((name, outcome, asked.takes_place))

        async with asyncio.TaskGroup() as group:
            for name, request in requests.items():
                group.create_task(ask(name, request))


class SiteQuestion:
    """One question to one site, until it is answered or given up."""

    def __init__(self, link: NatsLink, name: str, request: bytes, digest: bytes, places: asyncio.Semaphore):
        self._link = link
        self._name = name
        self._request = request
        self._digest = digest
        self._places = places
        self._number = secrets.token_bytes(NUMBER_BYTES)
        self._coming: AnswerReady | None = None
        self._came = bytearray()
        self._missing: set[int] = set()
        self.takes_place = False
        """Whether the answer was so long that it takes one of the places for long ones."""

    async def answer(
        self, until: float, deadline: float, grace: float, clock: Callable[[], float]
    ) -> Buffer | Lost:
        """Put the question, and again where that may help, until there is an answer or a reason for none."""
        known = False
        failures = 0
        heard = clock()
        trouble = ABSENT
        while clock() < until:
            try:
                reply = await (self._ask(AwaitAnswer(self._number), SILENT) if known else self._put())
                heard = clock()
                if isinstance(reply, AnswerReady):
                    return await self._take(reply)
                if isinstance(reply, NoAnswer):
                    failures += 1
                    if not reply.again or failures >= MOST_TIMES:
                        return Lost(f"the site could not answer: {printable(reply.reason)}")
                elif not isinstance(reply, StillWorking | SiteBusy | NotKnown):
                    return Lost("the site's reply is of another kind than was asked for")
                known = isinstance(reply, StillWorking)
            except NobodyThereError:
                trouble = ABSENT
                known = False
            except TimeoutError:
                trouble = "the site does not answer"
            except NotConnectedError as error:
                trouble = f"not connected to the server: {error}"
            except msgspec.DecodeError:
                return Lost("the site's reply cannot be read")
            if clock() - heard >= grace:
                return Lost(trouble)
            if not known:
                await asyncio.sleep(LOOK_AGAIN)
        return Lost(f"no answer within {deadline:g} s")

    async def _ask(self, message: Request, seconds: float) -> Reply:
        return await self._link.request(self._name, message, seconds)

    async def _put(self) -> Reply:
        """Put the question; a long one part by part."""
        size = len(self._request)
        if size <= PART:
            return await self._ask(AskSite(self._number, size, self._digest, self._request), SILENT)
        view = memoryview(self._request)
        refused: list[Reply] = []

        async def bring(at: int) -> None:
            async with self._link.room:
                part = bytes(view[at : at + PART])
                reply = await self._ask(PutPart(self._number, size, at, part), PART_SECONDS)
            if not isinstance(reply, PartTaken):
                refused.append(reply)

        await _few_at_once(bring, range(0, size, PART), lambda: bool(refused))
        if refused:
            return refused[0]
        return await self._ask(AskSite(self._number, size, self._digest), SILENT)

    async def _take(self, ready: AnswerReady) -> Buffer | Lost:
        """Return an answer that is ready; a long one is fetched part by part, each again if need be."""
        if ready.size > LARGEST_MESSAGE:
            return Lost(f"the answer has {ready.size:,} bytes; at most {LARGEST_MESSAGE:,} are taken")
        if ready.size <= PART:
            whole: Buffer = ready.body
        else:
            if not self.takes_place:
                await self._places.acquire()
                self.takes_place = True
            whole = await self._fetch(ready)
        if len(whole) != ready.size or hashlib.sha256(whole).digest() != ready.hash:
            return Lost("the answer that arrived is not the one that the site gave")
        await self._link.tell(self._name, DropAnswer(self._number))
        return whole

    async def _fetch(self, ready: AnswerReady) -> Buffer:
        """Fetch what is still missing of a long answer; what came before the line broke is not asked for again."""
        if self._coming != ready:
            self._coming = ready
            self._came = bytearray(ready.size)
            self._missing = set(range(0, ready.size, PART))
        view = memoryview(self._came)

        async def fetch(at: int) -> None:
            async with self._link.room:
                reply = await self._ask(FetchPart(self._number, at), PART_SECONDS)
            if not isinstance(reply, AnswerPart) or len(reply.part) != min(PART, ready.size - at):
                raise NobodyThereError("the site has let go of the answer")
            view[at : at + len(reply.part)] = reply.part
            self._missing.discard(at)

        await _few_at_once(fetch, sorted(self._missing))
        return view.toreadonly()


async def _few_at_once(
    act: Callable[[int], Awaitable[None]], places: Iterable[int], enough: Callable[[], bool] = lambda: False
) -> None:
    """Do something for each place, a few at a time, in order; the first error ends it, and so does ``enough``."""
    left = iter(places)

    async def work() -> None:
        for at in left:  # all workers take from the same
            if enough():
                return
            await act(at)

    workers = [asyncio.create_task(work()) for _ in range(PARTS_AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

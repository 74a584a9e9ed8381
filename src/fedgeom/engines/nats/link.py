"""What the coordinator's and a site's end of a NATS connection share: subjects, keys, messages, and connecting.

A site may do two things: hear what is published on its own subject, and reply to it. So everything begins with a
request of the coordinator, each is small and quickly replied to, and each can be repeated. A question has a number.
The site works on a number once, holds the answer, and hands it out in parts until it is told that all have arrived.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import ssl
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fedgeom.errors import InputError, printable

if TYPE_CHECKING:
    from nats.aio.client import Client

SUBJECTS = "fedgeom.site"
"""Below this each site has its subject."""
PART = 2**20
"""How many bytes of a question or an answer travel in one message."""
PAYLOAD = PART + 2**12
"""The largest message that the server takes: a part, and what stands around it."""
HOLD = 5.0
"""For how many seconds a site waits for its answer before it says that it is still working."""
SILENT = HOLD + 5.0
"""After how many seconds without a reply the other end counts as gone, unless large parts are on their way."""
PART_SECONDS = 60.0
"""How long a part may take: four of them, on a line of 70 kB a second."""
PING_SECONDS = 5.0
"""How often each end of a connection is asked whether it is there; after two pings without a reply it is given up."""
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 10.0
"""How long to wait before connecting again: more each time, and not the same for everybody."""
CONNECT_SECONDS = 10.0
NUMBER_BYTES = 16

Number = Annotated[bytes, msgspec.Meta(min_length=NUMBER_BYTES, max_length=NUMBER_BYTES)]
Hash = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class LinkMessage(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A message between the two ends."""


class AskSite(LinkMessage, tag="ask"):
    """Put a question; one that is longer than a part came before, by `PutPart`."""

    number: Number
    size: Size
    hash: Hash
    body: bytes = b""


class PutPart(LinkMessage, tag="put"):
    """Bring a part of a long question; the reply is `PartTaken`."""

    number: Number
    size: Size
    at: Size
    part: bytes


class AwaitAnswer(LinkMessage, tag="await"):
    """Ask again for the answer to a question that the site works on."""

    number: Number


class FetchPart(LinkMessage, tag="fetch"):
    """Ask for a part of a long answer; the reply is `AnswerPart`."""

    number: Number
    at: Size


class DropAnswer(LinkMessage, tag="drop"):
    """Say that an answer has arrived and need not be held any longer; there is no reply."""

    number: Number


class LookAtSite(LinkMessage, tag="look"):
    """Ask who is there; the reply is `SiteIsHere`."""


Request = AskSite | PutPart | AwaitAnswer | FetchPart | DropAnswer | LookAtSite


class AnswerReady(LinkMessage, tag="ready"):
    """The answer, or, where it is longer than a part, that it can be fetched."""

    size: Size
    hash: Hash
    body: bytes = b""


class AnswerPart(LinkMessage, tag="part"):
    """A part of an answer."""

    part: bytes


class PartTaken(LinkMessage, tag="taken"):
    """A part of a question is here."""


class StillWorking(LinkMessage, tag="working"):
    """The site has the question and no answer yet."""


class SiteBusy(LinkMessage, tag="busy"):
    """The site holds so many questions and answers that there is no room for another just now."""


class NotKnown(LinkMessage, tag="unknown"):
    """The site has no such question, or not all of it: it was started anew, or has let go of the answer."""


class NoAnswer(LinkMessage, tag="none"):
    """There will be no answer; ``again`` says whether another try may fare better."""

    reason: Annotated[str, msgspec.Meta(max_length=4000)]
    again: bool = False


class SiteIsHere(LinkMessage, tag="here"):
    """What a site says of itself."""

    name: str
    started: float
    """When the process that is connected was started: by this a restart is noticed."""
    version: str
    waiting: int = 0
    """How many questions it works on or has yet to."""


Reply = AnswerReady | AnswerPart | PartTaken | StillWorking | SiteBusy | NotKnown | NoAnswer | SiteIsHere

_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def read_request(data: bytes) -> Request:
    """Decode what came to a site; raises `msgspec.DecodeError`."""
    return _REQUESTS.decode(data)


def read_reply(data: bytes) -> Reply:
    """Decode what a site replied; raises `msgspec.DecodeError`."""
    return _REPLIES.decode(data)


def subject_of(name: str) -> str:
    """Return the subject on which a site hears its questions; a dot would divide a subject into levels.

    >>> subject_of("st.-gallen")
    'fedgeom.site.st~-gallen'
    """
    return f"{SUBJECTS}.{name.replace('.', '~')}"


def need_nats() -> None:
    """Say how to install NATS when it is missing."""
    try:
        import nats  # noqa: F401
        import nkeys  # noqa: F401
    except ImportError as error:
        raise InputError("this deployment is carried by NATS: pip install 'fedgeom[nats]'") from error


def new_seed() -> str:
    """Make the secret key by which a NATS server knows who connects, as NATS writes it.

    It is not the site's identity: a server chooses what a client signs, and an identity signs keys of runs.
    """
    need_nats()
    import nkeys  # optional

    seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return seed.decode()


def public_key(seed: str) -> str:
    """Return the public half of a secret key, as NATS writes it."""
    need_nats()
    import nkeys  # optional

    try:
        pair = nkeys.from_seed(bytearray(seed.strip().encode()))
        return str(pair.public_key.decode())
    except nkeys.NkeysError as error:
        raise InputError(
            "the site's NATS key is damaged; make a new one: fedgeom site init --new-node-key"
        ) from error


def no_proxy(host: str) -> str:
    """Say that nothing stands on the way to a host."""
    return ""


@dataclass(frozen=True)
class ServerAddress:
    """Where a server is."""

    host: str
    port: int
    websocket: bool = False
    """Whether it is spoken to over WebSocket, as browsers do, which more firewalls let through."""

    @classmethod
    def read_all(cls, text: str) -> tuple[ServerAddress, ...]:
        """Read one address, or several of one cluster with commas between them.

        >>> ServerAddress.read_all("host:8000")
        (ServerAddress(host='host', port=8000, websocket=False),)
        >>> [one.url(secure=True) for one in ServerAddress.read_all("wss://host, wss://other:8443")]
        ['wss://host:443', 'wss://other:8443']
        """
        found = tuple(cls._read(one.strip()) for one in text.split(","))
        if len({one.websocket for one in found}) > 1:
            raise InputError(f"{text!r} has addresses with and without wss://; give all of one kind")
        return found

    @classmethod
    def _read(cls, text: str) -> ServerAddress:
        scheme, found, rest = text.rpartition("://")
        host, _, port = rest.rpartition(":") if ":" in rest or scheme != "wss" else (rest, "", "443")
        known = not found or scheme in ("tls", "nats", "wss")
        if not known or not host or ":" in host or "/" in rest or not port.isdigit() or not 0 < int(port) < 65536:
            raise InputError(
                f"{text!r} is not the address of a coordinator; wanted HOST:PORT, such as host:8000, or wss://HOST"
            )
        return cls(host, int(port), scheme == "wss")

    def url(self, *, secure: bool) -> str:
        """Return the address as NATS writes it."""
        scheme = ("wss" if secure else "ws") if self.websocket else "tls" if secure else "nats"
        return f"{scheme}://{self.host}:{self.port}"

    def __str__(self) -> str:
        """Return the address as people write it."""
        return f"{'wss://' if self.websocket else ''}{self.host}:{self.port}"


@dataclass(frozen=True)
class Endpoint:
    """Where the servers are and who connects to them."""

    servers: tuple[ServerAddress, ...]
    """One, or those of a cluster: the next is tried when one does not answer."""
    seed: str
    """The secret key of whoever connects."""
    certificate: Path | None
    """The authority that must have signed the server's certificate; without one there is no TLS."""
    proxy: Callable[[str], str] = no_proxy
    """From a host to the address of the HTTP proxy on the way to it; nothing where there is none."""

    def context(self, host: str) -> ssl.SSLContext | None:
        """Return how TLS is to be spoken: version 1.3, and with nobody but whom the authority vouches for."""
        if self.certificate is None:
            return None
        made = NamedContext(ssl.PROTOCOL_TLS_CLIENT)
        made.load_verify_locations(cafile=str(self.certificate))
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.host = host
        return made


class NotConnectedError(Exception):
    """There is no connection to the server just now."""


class NobodyThereError(Exception):
    """The server says that nobody hears a subject: the site is not connected."""


class Connection:
    """A connection that is built again whenever it ends.

    The client library's own way of connecting again says nothing of why it fails, and holds messages back that would
    be out of date; here each connection is a new one.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        name: str,
        opened: Callable[[Client], Awaitable[None]],
        told: Callable[[str], None] = lambda trouble: None,
    ):
        """Prepare it; ``opened`` gets each new connection, ``told`` why there is none, or "" once there is one."""
        self._endpoint = endpoint
        self._name = name
        self._opened = opened
        self._told = told
        self._client: Client | None = None
        self._turn = 0
        """Which server is tried next."""
        self._tunnel = contextlib.AsyncExitStack()

    @property
    def client(self) -> Client:
        """The connection, if there is one now."""
        if self._client is None or not self._client.is_connected:
            raise NotConnectedError("not connected to the server")
        return self._client

    async def keep(self) -> None:
        """Stay connected until cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                ended = await self._connect()
                self._told("")
                pause = FIRST_PAUSE
                await ended.wait()
                self._told("the connection ended")
            except Exception as error:
                self._turn += 1
                if not _is_usual(error):
                    raise
                self._told(in_words(error))
            finally:
                await self._close()
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(1.5 * pause, LONGEST_PAUSE)

    async def request(self, subject: str, message: Request, seconds: float) -> Reply:
        """Put a request and return its reply; raises `NobodyThereError`, `TimeoutError` or `NotConnectedError`."""
        from nats import errors  # optional

        try:
            got = await self.client.request(subject, msgspec.msgpack.encode(message), timeout=seconds)
            return read_reply(got.data)
        except errors.NoRespondersError as error:
            raise NobodyThereError("the site is not connected") from error
        except errors.TimeoutError as error:
            raise TimeoutError(f"no reply within {seconds:g} s") from error
        except (errors.Error, OSError) as error:
            raise NotConnectedError(in_words(error)) from error

    async def _connect(self) -> asyncio.Event:
        """Connect once; return what is set when the connection has ended."""
        from nats import errors  # optional
        from nats.aio.client import Client

        ended = asyncio.Event()
        failures: list[Exception] = []

        async def leave() -> None:
            ended.set()

        async def note(error: Exception) -> None:
            """Keep why no connection came about; what an error ends later, `closed_cb` tells."""
            failures.append(error)

        client = Client()
        self._client = client
        server = self._endpoint.servers[self._turn % len(self._endpoint.servers)]
        options: dict[str, Any] = {}
        context = self._endpoint.context(server.host)
        if context is not None:
            options = {"tls": context, "tls_handshake_first": not server.websocket}
        proxy = self._endpoint.proxy(server.host)
        if proxy:
            port = await self._tunnel.enter_async_context(tunnel(proxy, server.host, server.port))
            server = replace(server, host="127.0.0.1", port=port)
        try:
            await asyncio.wait_for(
                client.connect(
                    server.url(secure=context is not None),
                    name=self._name,
                    nkeys_seed_str=self._endpoint.seed,
                    allow_reconnect=False,
                    connect_timeout=int(CONNECT_SECONDS),
                    ping_interval=int(PING_SECONDS),
                    max_outstanding_pings=2,
                    closed_cb=leave,
                    disconnected_cb=leave,
                    error_cb=note,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    pending_size=8 * PAYLOAD,
                    **options,
                ),
                2 * CONNECT_SECONDS,
            )
        except errors.NoServersError as error:
            raise (failures[0] if failures else error) from error  # later ones may follow from it
        await self._opened(client)
        await client.flush()
        return ended

    async def _close(self) -> None:
        client = self._client
        self._client = None
        if client is not None:
            with contextlib.suppress(Exception):  # whatever is wrong with it, it is not used any more
                await asyncio.wait_for(client.close(), CONNECT_SECONDS)
        with contextlib.suppress(Exception):
            await self._tunnel.aclose()


class NamedContext(ssl.SSLContext):
    """Checks that a certificate is made out for a given host, whatever address leads there: that may be a tunnel's."""

    host = ""

    def wrap_bio(self, *given: Any, **named: Any) -> ssl.SSLObject:
        """Begin a connection to the host."""
        return super().wrap_bio(*given, **{**named, "server_hostname": self.host})


def environment_proxy(host: str) -> str:
    """Return the HTTP proxy that the environment (HTTPS_PROXY, NO_PROXY) names for a host; none for this machine."""
    if host == "localhost" or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get("https", "")


@contextlib.asynccontextmanager
async def tunnel(proxy: str, host: str, port: int) -> AsyncIterator[int]:
    """Have an HTTP proxy connect to a host; yield the port on this machine where that connection is, for one caller."""
    where = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if where.scheme != "http" or not where.hostname:
        raise InputError(f"HTTPS_PROXY is {proxy!r}; wanted http://HOST:PORT")
    reader, writer = await asyncio.wait_for(
        asyncio.open_connection(where.hostname, where.port or 80), CONNECT_SECONDS
    )
    lines = [f"CONNECT {host}:{port} HTTP/1.1", f"Host: {host}:{port}"]
    if where.username:
        who = f"{urllib.parse.unquote(where.username)}:{urllib.parse.unquote(where.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(who.encode()).decode()}")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CONNECT_SECONDS)
    except asyncio.IncompleteReadError as error:
        raise ConnectionError(f"the proxy {where.hostname} hung up") from error
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if status.split()[1:2] != ["200"]:
        writer.close()
        raise ConnectionError(f"the proxy {where.hostname} says: {printable(status)}")
    copying: list[asyncio.Task[None]] = []

    async def called(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        listener.close()  # the tunnel is for one
        copying.append(asyncio.create_task(_copy(near, writer)))
        copying.append(asyncio.create_task(_copy(reader, back)))

    listener = await asyncio.start_server(called, "127.0.0.1", 0)
    try:
        yield int(listener.sockets[0].getsockname()[1])
    finally:
        listener.close()
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)
        writer.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Hand on what comes until there is no more."""
    with contextlib.suppress(OSError):
        while data := await source.read(2**16):
            sink.write(data)
            await sink.drain()
    sink.close()


FOREIGN = "the server's certificate is foreign"
NOT_ADMITTED = "the server does not know this key"
NOBODY_LISTENS = "nobody listens there"
"""What is told of connections that failed; who it is told to knows what to do."""


def _is_usual(error: Exception) -> bool:
    """Say whether an error is one that connections have, and not a fault of the program."""
    import aiohttp  # optional
    from nats import errors

    return isinstance(error, errors.Error | OSError | TimeoutError | aiohttp.ClientError)


def in_words(error: Exception) -> str:
    """Say in plain words why there is no connection."""
    told = getattr(error, "certificate_error", error)  # over WebSocket it is wrapped
    if isinstance(told, ssl.SSLCertVerificationError):
        return f"{FOREIGN}: {told.verify_message}"
    if "authorization" in str(error).lower():
        return NOT_ADMITTED
    if isinstance(error, ConnectionRefusedError):
        return NOBODY_LISTENS
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    return str(error) or type(error).__name__

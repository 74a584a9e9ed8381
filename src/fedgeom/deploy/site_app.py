"""The ClientApp: one question from Flower, answered by the site in its folder."""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedgeom import __version__
from fedgeom.data.sites import SiteData
from fedgeom.deploy.journal import Journal, Kept, LocalEntry, sealed
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower.engine import QUESTION, answer_message
from fedgeom.engines.flower.introduction import INTRODUCE, introduce_message
from fedgeom.errors import DecodeError, InputError, ProtocolError
from fedgeom.federation.messages import Refusal, pack, unpack
from fedgeom.federation.site import Badge, Host
from fedgeom.methods import METHODS, method_class
from fedgeom.storage import make_private_folder, write_file, write_json

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

log = logging.getLogger(__name__)

NOT_READY = "the site is not ready to answer; its own log says why"
REFUSED = 2
"""Flower's error code for an app that refused or failed."""
FAILED = "the site failed while it was answering; its own log says why"


class TurnedAwayError(ProtocolError):
    """The site's policy does not let this run begin."""


def answer(folder: SiteFolder, request: bytes, carried: bytes | None) -> tuple[bytes, bytes]:
    """Answer one request for the site in a folder; write memory and ledger before the answer leaves."""
    journal = Journal(folder.path)
    with journal.exclusive():
        return _answer(folder, journal, request, carried)


def _answer(folder: SiteFolder, journal: Journal, request: bytes, carried: bytes | None) -> tuple[bytes, bytes]:
    config = folder.config()
    policy = config.policy.policy()
    try:
        frame = unpack(request, limit=policy.largest_message)
    except DecodeError as error:
        journal.enter(_entry("", "", "unreadable", "none", len(request), 0, note=str(error), counts=False))
        raise
    enter = functools.partial(_entry, frame.run.hex(), frame.method, frame.kind)
    try:
        _let_in(folder, journal, frame.run, frame.method)
        kept = journal.newest(frame.run, carried, folder.identity() if carried else None)
    except ProtocolError as error:  # nothing is remembered of it
        reply, away = pack(frame.run, frame.method, Refusal(reason=str(error)[:2000])), carried or b""
        counts = not isinstance(error, TurnedAwayError)
        journal.enter(enter(Refusal.kind, len(request), len(reply), note=str(error), counts=counts))
        return reply, away
    host: Host | None = None
    with _notes() as notes:
        try:
            badge = Badge(config.name, folder.identity(), folder.roster(), policy)
            load = functools.cache(lambda: read_data(folder))
            host = Host(method_class(frame.method).site, frame.method, badge, load)
            reply, memory = host.answer(request, kept.memory or None)
        except InputError as error:  # about files of the site, which are nobody else's business
            log.warning("site %r cannot answer: %s", config.name, error)
            reply, memory = pack(frame.run, frame.method, Refusal(reason=NOT_READY)), kept.memory
    newest = Kept(kept.count + 1, memory)
    journal.keep(frame.run, newest)
    said = unpack(reply)
    if said.kind == Refusal.kind and not notes:
        notes.append(msgspec.msgpack.decode(said.body, type=Refusal).reason)
    journal.enter(enter(said.kind, len(request), len(reply), note="; ".join(notes)))
    if host is not None:
        keep_result(folder, host, frame.run, memory)
    return reply, sealed(newest, frame.run, folder.identity()) if folder.identity_file.is_file() else b""


def _let_in(folder: SiteFolder, journal: Journal, run: bytes, method: str) -> None:
    """Ask the site's policy whether it takes part in a run at all."""
    config = folder.config()
    allowed = config.policy.methods
    if method not in METHODS or (allowed and method not in allowed):
        raise TurnedAwayError(f"site {config.name!r} does not take part in method {method!r}")
    try:
        journal.check_rate_limit(run, config.policy.runs_per_day)
    except ProtocolError as error:
        raise TurnedAwayError(str(error)) from error


def _entry(
    run: str,
    method: str,
    question: str,
    answered: str,
    received: int,
    sent: int,
    *,
    note: str = "",
    counts: bool = True,
) -> LocalEntry:
    return LocalEntry(
        time=round(time.time(), 3),
        run=run,
        method=method,
        question=question,
        answer=answered,
        received=received,
        sent=sent,
        reveals=reveals(method, question, answered),
        note=note,
        counts=counts,
    )


@contextmanager
def _notes() -> Iterator[list[str]]:
    """Collect what our own loggers warn of: reasons that must not reach the coordinator."""
    notes: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append(record.getMessage())
            print(record.getMessage(), file=sys.stderr)  # into site.log

    handler, ours = Collect(logging.WARNING), logging.getLogger("fedgeom")
    ours.addHandler(handler)
    try:
        yield notes
    finally:
        ours.removeHandler(handler)


def keep_result(folder: SiteFolder, host: Host, run: bytes, memory: bytes) -> None:
    """Write down what the site itself learnt, once there is something: `fedgeom predict` can use a model's folder."""
    try:
        site = host.wake(run, memory or None)
        result = site.result()
        model: bytes = getattr(site.memory, "model", b"")
        if not result and not model:
            return
        target = folder.path / "results" / run.hex()[:16]
        for inner in (folder.path / "results", target, target / "sites"):
            make_private_folder(inner)
        content = {"site": host.badge.name, **result}
        write_json(target / "sites" / f"{host.badge.name}.json", content, private=True)
        if model:
            write_file(target / "model.safetensors", model, private=True)
    except Exception:  # the answer is ready and must not be lost with this
        log.exception("the result of run %s could not be written", run.hex()[:8])


def reveals(method: str, question: str, answered: str) -> str:
    """Say what an answer reveals, in the words of the method."""
    if answered in (Refusal.kind, "none"):
        return Refusal.reveals
    known = method_class(method).site.understands().get(question) if method in METHODS else None
    return "" if known is None else known.answer_reveals or known.answer.reveals


def read_data(folder: SiteFolder) -> SiteData:
    """Read the site's table, as site.toml says."""
    from fedgeom.data.files import read_site

    config = folder.config()
    return read_site(
        folder.path / config.file,
        label=config.label,
        name=config.name,
        columns=config.columns,
        drop_unlabelled=config.drop_unlabelled,
    )


def make_app() -> ClientApp:
    """Return the ClientApp; the site's folder comes from the node's own configuration."""
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query(QUESTION.split(".", 1)[1])
    def query(message: Message, context: Context) -> Message:
        folder = SiteFolder(Path(str(context.node_config["site"])))
        try:
            return answer_message(message, context, lambda request, kept: answer(folder, request, kept))
        except DecodeError as error:
            return refuse_message(message, f"refused: {error} (the site runs fedgeom {__version__})")
        except Exception:  # its text may quote the data, and Flower would send it
            log.exception("the question could not be answered")
            return refuse_message(message, FAILED)

    @app.query(INTRODUCE.split(".", 1)[1])
    def introduce(message: Message, context: Context) -> Message:
        folder = SiteFolder(Path(str(context.node_config["site"])))
        try:
            return introduce_message(message, folder)
        except Exception:
            log.exception("the site could not introduce itself")
            return refuse_message(message, FAILED)

    return app


def refuse_message(message: Message, reason: str) -> Message:
    """Return Flower's kind of answer for a question that could not even be read."""
    from flwr.app import Error
    from flwr.app import Message as FlowerMessage

    return FlowerMessage(Error(REFUSED, reason), reply_to=message)

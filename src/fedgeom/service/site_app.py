"""The ClientApp: one question from Flower, answered by the site in its folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from fedgeom.data.sites import SiteData
from fedgeom.errors import DecodeError, InputError, ProtocolError
from fedgeom.federation.engines.flower import QUESTION, answer_message
from fedgeom.federation.messages import Refusal, pack, unpack
from fedgeom.federation.site import Badge, Host
from fedgeom.methods import METHODS, method_class
from fedgeom.service.folders import SiteFolder
from fedgeom.service.journal import Journal, Kept, LocalEntry

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp


def answer(folder: SiteFolder, request: bytes, carried: bytes | None) -> tuple[bytes, bytes]:
    """Answer one request for the site in a folder; write memory and ledger before the answer leaves."""
    config, journal = folder.config(), Journal(folder.path)
    policy = config.policy.policy()
    frame = unpack(request, limit=policy.largest_message)
    kept = journal.newest(frame.run, carried)
    try:
        if frame.method not in METHODS or (policy.methods and frame.method not in policy.methods):
            raise ProtocolError(f"site {config.name!r} does not take part in method {frame.method!r}")
        journal.check_often(frame.run, config.policy.runs_per_day)
        badge = Badge(config.name, folder.identity(), folder.roster(), policy)
        host = Host(method_class(frame.method).site, frame.method, badge, lambda: read_data(folder))
        reply, memory = host.answer(request, kept.memory or None)
    except (ProtocolError, InputError) as error:
        reply = pack(frame.run, frame.method, Refusal(reason=str(error)[:2000]))
        memory = kept.memory
    copy = journal.keep(frame.run, Kept(kept.count + 1, memory))
    said = unpack(reply)
    journal.enter(
        LocalEntry(
            time=round(time.time(), 3),
            run=frame.run.hex(),
            method=frame.method,
            question=frame.kind,
            answer=said.kind,
            received=len(request),
            sent=len(reply),
            reveals=reveals(frame.method, frame.kind, said.kind),
        )
    )
    return reply, copy


def reveals(method: str, question: str, answered: str) -> str:
    """Say what an answer reveals, in the words of the method."""
    if answered == Refusal.kind:
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
            raise RuntimeError(f"refused: {error}") from error

    return app

"""A question, answered by the site in its folder: policy first, memory and ledger before the answer leaves.

Every question may find a new process, so all that a site knows is in its folder. What is wrong with the data or the
folder stays at the site: the coordinator learns that, not what.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from fedgeom.crypto.keys import forget_agreements
from fedgeom.data.cells import reading_of
from fedgeom.data.readers import read_site
from fedgeom.data.sites import SiteData
from fedgeom.deploy.approvals import FolderApprovals
from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.journal import Journal, LocalEntry, StoredMemory
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import ContractError, DecodeError, InputError, ProtocolError, printable
from fedgeom.evaluation.evaluation import FILE, class_titles, evaluate, own_counts
from fedgeom.federation.messages import Refusal, Waiting, pack, unpack
from fedgeom.federation.method import METHODS
from fedgeom.federation.record import SiteResult, write_site_result
from fedgeom.federation.runner import SiteRunner, describe_failure
from fedgeom.federation.site import SiteIdentity, own_outcome
from fedgeom.federation.site_models import own_model_file
from fedgeom.memo import memoize_last
from fedgeom.methods.catalogue import method_class, read_model
from fedgeom.storage import make_private_folder, write_file, write_json, write_text

log = logging.getLogger(__name__)

NOT_READY = "the site is not ready to answer; its own log says why"

FORGOTTEN = "what the site remembered of this run is gone; the run has to start anew"
"""Answered afresh, the same approval would serve for a second run, over other sites and with other masks."""


class NotAdmittedError(ProtocolError):
    """The site's policy does not let this run begin."""


def answer(folder: SiteFolder, request: bytes) -> bytes:
    """Answer one request for the site in a folder; write memory and ledger before the answer leaves."""
    journal = Journal(folder.path)
    folder.choose_device()
    with journal.exclusive():
        return _answer(folder, journal, request)


def _answer(folder: SiteFolder, journal: Journal, request: bytes) -> bytes:
    config = folder.config()
    policy = config.policy
    try:
        frame = unpack(request, limit=policy.max_message_bytes)
    except DecodeError as error:
        journal.enter(_entry("", "", "unreadable", "none", len(request), 0, note=str(error), counts=False))
        raise
    _forget_other_runs(frame.run)
    enter = functools.partial(_entry, frame.run.hex(), frame.method, frame.kind)
    try:
        _check_admission(folder, journal, frame.run, frame.method)
        kept = journal.newest(frame.run)
        if not kept.memory and journal.has_answered(frame.run):
            raise ProtocolError(FORGOTTEN)
    except ProtocolError as error:  # nothing is remembered of it
        reply = pack(frame.run, frame.method, Refusal(reason=str(error)[:2000]))
        counts = not isinstance(error, NotAdmittedError)
        journal.enter(enter(Refusal.kind, len(request), len(reply), note=str(error), counts=counts))
        return reply
    runner: SiteRunner | None = None

    def begin() -> None:
        """Write down what was asked before the work: whatever becomes of this process, the steward can see it."""
        journal.enter(enter("", len(request), 0, begun=True))

    with _notes() as notes:
        try:
            identity = _identity(folder)
            load = functools.partial(_table_of, folder)
            method = method_class(frame.method)
            runner = SiteRunner(method.site, method, identity, load, tables=True)
            reply, memory = runner.answer(request, kept.memory or None, begin)
        except InputError as error:  # about files of the site, which are nobody else's business
            log.warning("site %r cannot answer: %s", config.name, error)
            reply = pack(frame.run, frame.method, Refusal(reason=NOT_READY))
            memory = kept.memory
        except ContractError as error:  # the method's fault, but whether it shows may depend on the data
            log.exception("the method %r breaks the contract: %s", frame.method, error)
            assert runner is not None
            reply, memory = runner.leave(frame.run)
        except Exception as error:  # the engine sends no text of it; the steward has to know what was asked
            why = describe_failure(error, policy)
            if isinstance(error, MemoryError):  # the traceback does not say which key of site.toml is meant
                log.error("%s", printable(why))
            journal.enter(enter("none", len(request), 0, note=why))
            raise
    said = unpack(reply)
    if said.kind == Waiting.kind:  # asked again every few seconds: it is written down when it is news
        if notes:
            journal.enter(enter(said.kind, len(request), len(reply), note="; ".join(notes), counts=False))
        return reply
    newest = StoredMemory(kept.count + 1, memory)
    journal.keep(frame.run, newest)
    if said.kind == Refusal.kind and not notes:
        notes.append(msgspec.msgpack.decode(said.body, type=Refusal).reason)
    journal.enter(enter(said.kind, len(request), len(reply), note="; ".join(notes)))
    if runner is not None and said.kind != Refusal.kind:  # a refusal leaves a site with what it had
        note = keep_result(folder, runner, frame.run, memory)
        if note:
            journal.enter(enter("none", 0, 0, note=note))
    return reply


_latest_run: list[bytes] = []
"""The run that this process answered last."""


def _forget_other_runs(run: bytes) -> None:
    """Let go of keys that were agreed on in another run: a process may answer questions of several."""
    if _latest_run != [run]:
        forget_agreements()
        _latest_run[:] = [run]


def _identity(folder: SiteFolder) -> SiteIdentity:
    """Return who the site is, with its approvals and its budget; where one of their files is damaged, it stops."""
    config = folder.config()
    key = folder.identity()
    budget = BudgetStore(folder.path, key, config.policy)
    budget.read()
    return SiteIdentity(
        config.name, key, folder.roster(), config.policy, FolderApprovals.of(folder, budget), budget
    )


def _check_admission(folder: SiteFolder, journal: Journal, run: bytes, method: str) -> None:
    """Ask the site's policy whether it takes part in a run at all."""
    config = folder.config()
    allowed = config.policy.methods
    if method not in METHODS or (allowed and method not in allowed):
        raise NotAdmittedError(f"site {config.name!r} does not take part in method {method!r}")
    try:
        journal.check_rate_limit(run, config.policy.runs_per_day)
    except ProtocolError as error:
        raise NotAdmittedError(str(error)) from error


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
    begun: bool = False,
) -> LocalEntry:
    return LocalEntry(
        time=round(time.time(), 3),
        run=run,
        method=method,
        question=question,
        answer=answered,
        received=received,
        sent=sent,
        reveals="" if begun else reveals(method, question, answered),
        note=note,
        counts=counts,
        begun=begun,
    )


@contextmanager
def _notes() -> Iterator[list[str]]:
    """Collect what our own loggers warn of: reasons that must not reach the coordinator."""
    notes: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append(printable(record.getMessage(), lines=True))
            print(notes[-1], file=sys.stderr)  # into site.log

    handler = Collect(logging.WARNING)
    ours = logging.getLogger("fedgeom")
    ours.addHandler(handler)
    try:
        yield notes
    finally:
        ours.removeHandler(handler)


def keep_result(folder: SiteFolder, runner: SiteRunner, run: bytes, memory: bytes) -> str:
    """Write down what the site itself has, once there is something, and return what went wrong, if anything.

    `fedgeom predict` can use the folder. The answer is ready and must not be lost with a result that cannot be
    written, so the fault is not raised here: it is in the site's log, in its ledger, and in results/RUN/error.txt.
    """
    target = folder.path / "results" / run.hex()[:16]
    try:
        site = runner.restore(run, memory or None)
        result = SiteResult(site.name, own_outcome(site), own_model_file(site))
        if not result.found and not result.model:
            return ""
        for inner in (folder.path / "results", target, target / "sites"):
            make_private_folder(inner)
        write_site_result(target, result)
        if result.model:
            write_file(target / "model.safetensors", result.model, private=True)
        counts = own_counts(result.found)
        if counts is not None:  # its own figures: what leaves are counts inside a sum
            titles = class_titles(read_model(result.model).bare(), {site.name: result.found})
            write_json(target / FILE, evaluate(counts, titles), private=True)
        (target / "error.txt").unlink(missing_ok=True)
        return ""
    except Exception as error:
        why = printable(traceback.format_exc(), lines=True)
        log.error("the result of run %s could not be written\n%s", run.hex()[:8], why)
        words = f"the site's own result could not be written: {type(error).__name__}: {error}"
        with contextlib.suppress(OSError):  # a full disk: the log has it
            write_text(make_private_folder(target) / "error.txt", words + "\n", private=True)
        return words


def reveals(method: str, question: str, answered: str) -> str:
    """Say what an answer reveals, in the words of the method."""
    if answered in (Refusal.kind, "none"):
        return Refusal.reveals
    if answered == Waiting.kind:
        return Waiting.reveals
    known = method_class(method).site.understands().get(question) if method in METHODS else None
    return "" if known is None else known.answer_reveals or known.answer.reveals


def _table_of(folder: SiteFolder, table: str = "") -> SiteData:
    """Return a table as `read_data` does; one process reads it once, and again when the file or site.toml changed."""
    config = folder.config()
    files = [folder.config_file, folder.path / config.table(table).file]
    states = [file.stat() if file.exists() else None for file in files]
    now = [None if one is None else (one.st_ino, one.st_mtime_ns, one.st_size) for one in states]
    return _read_once(str(folder.path), table, repr(now))


@memoize_last
def _read_once(path: str, table: str, state: str) -> SiteData:
    return read_data(SiteFolder(Path(path)), text=True, table=table)


def read_data(
    folder: SiteFolder, columns: list[str] | None = None, *, text: bool = False, table: str = ""
) -> SiteData:
    """Read the site's table, as site.toml says, or with these columns instead; ``text``: columns of text, too.

    ``table`` is the one that a job names, where the site has several.
    """
    config = folder.config()
    said = config.table(table)
    return read_site(
        folder.path / said.file,
        label=said.label,
        name=config.name,
        columns=said.columns if columns is None else columns,
        drop_unlabelled=said.drop_unlabelled,
        group=said.group or None,
        index=said.index or None,
        text=text,
        reading=reading_of(said),
    )

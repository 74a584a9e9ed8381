"""What wraps a site for an engine: bytes in, bytes out, and a memory that is stored in between.

Here stands what holds for every question of every method: the steward's approval comes first, what depends on the data
makes the site leave, and nothing leaves that is larger than the policy allows.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.data.sites import SiteData
from fedgeom.errors import ContractError, DecodeError, FedgeomError, InputError, ProtocolError
from fedgeom.federation.messages import Buffer, Question, Refusal, Waiting, decode, pack, pack_large, unpack
from fedgeom.federation.policy import Invitation, NotApprovedError, Policy, RevokedError, hash_terms
from fedgeom.federation.results import LEAVES
from fedgeom.federation.site import Memory, Site, SiteIdentity
from fedgeom.memo import memoize_last

log = logging.getLogger(__name__)

INSTALLED = (str(Path(__file__).resolve().parents[1]), "site-packages", "dist-packages", "<frozen")
"""Parts of the names of files that are not the user's own."""


def where_raised(error: BaseException) -> str:
    """Return the last line outside this package and others that are installed, or else the last one of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not any(part in one.filename for part in INSTALLED)]
    if not frames:
        return "nobody knows where"
    last = (own or frames)[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}: {last.line}"


def describe_failure(error: Exception, policy: Policy) -> str:
    """Say, for the site's own ledger and log, why there is no answer."""
    if not isinstance(error, MemoryError):
        return f"failed: {type(error).__name__}: {error}"
    limit = f"max_memory_mb = {policy.max_memory_mb} in site.toml" if policy.max_memory_mb else "this machine has"
    return f"failed: the answer takes more memory than {limit} ({error})"


class SiteRunner:
    """Answers an engine's bytes with bytes, using one method's site class and the site's stored memory."""

    def __init__(
        self,
        site: type[Site[Any]],
        method: type[Any],
        identity: SiteIdentity,
        data: Callable[..., SiteData],
        *,
        tables: bool = False,
    ):
        """``data`` returns the site's rows; with ``tables`` it takes the name of one, where the terms name one."""
        if not site.masked:
            raise ContractError(f"{site.__name__} hides nothing: it is for Method.plain, never for an engine")
        self.site = site
        self.method = method
        self.identity = identity
        self._data = data
        self._tables = tables
        self.by_reference = False
        """Whether an engine in the same process takes large answers where they stand; otherwise they are bytes."""
        self.failure: Exception | None = None
        """What nobody expected and made the site leave, for an engine in the same process: to the coordinator it is
        never told."""
        self._scratch: dict[bytes, dict[Any, Any]] = {}

    def answer(
        self, request: bytes, memory: bytes | None, begin: Callable[[], None] = lambda: None
    ) -> tuple[bytes, bytes]:
        """Return the answer and the memory to keep, which must be stored before the answer leaves.

        Before anything about the data is looked at, the steward must have approved the job. A refusal leaves the memory
        as it was, with two exceptions. When the *data* do not fit a question (`InputError`), the reason may quote them:
        it goes to the site's own log, not to the coordinator, and the site leaves the run, or else a coordinator could
        ask on until the refusals told the data. What nobody expected (any other exception) may depend on the data as
        well, so it ends the same way. When the steward has revoked the approval, it leaves, too.

        ``begin`` is called before the question is decoded; for an invitation, which is repeated while the site waits,
        after admission.
        """
        frame = unpack(request, limit=self.identity.policy.max_message_bytes)
        try:
            remembered = self._remembered(frame.run, memory)
            if remembered.left:
                if remembered.approved:  # kept where the approval was revoked, to say so again
                    self.identity.approvals.check(frame.run, self.method.name, remembered.approved)
                raise ProtocolError(f"site {self.identity.name!r} has left this run")
            waits = not remembered.approved and issubclass(
                self.site.understands().get(frame.kind, Question), Invitation
            )
            if not waits:
                begin()
            question = self._read(frame.method, frame.kind, frame.body)
            self._check_approval(question, remembered)
            if waits:
                begin()
            site = self._site(remembered)
            reply = site.answer(question)
            packed = (pack_large if self.by_reference else pack)(frame.run, self.method.name, reply)
            self._check_sent(packed)
            # Only an engine that said ``by_reference`` gets anything but bytes.
            return packed, msgspec.msgpack.encode(site.memory)  # type: ignore[return-value]
        except NotApprovedError:
            return pack(frame.run, self.method.name, Waiting()), memory or b""
        except RevokedError as error:
            log.warning("site %r leaves run %s: %s", self.identity.name, frame.run.hex()[:8], error)
            return self.leave(frame.run, str(error), remembered.approved)
        except InputError as error:
            log.warning("site %r leaves run %s: %s", self.identity.name, frame.run.hex()[:8], error)
        except FedgeomError as error:
            return pack(frame.run, self.method.name, Refusal(reason=str(error)[:2000])), memory or b""
        except ContractError:
            raise
        except Exception as error:
            return self.fail(frame.run, error)
        return self.leave(frame.run)

    def fail(self, run: bytes, error: Exception) -> tuple[bytes, bytes]:
        """Leave a run over an exception that nobody expected; where it came from stands in the site's own log.

        An engine in the same process raises it itself where the run ends with it: there it is not logged in full.
        """
        self.failure = error
        why = f"{describe_failure(error, self.identity.policy)} ({where_raised(error)})"
        trace = None if self.by_reference else error
        log.warning("site %r leaves run %s: %s", self.identity.name, run.hex()[:8], why, exc_info=trace)
        return self.leave(run)

    def leave(self, run: bytes, reason: str = "", approved: bytes = b"") -> tuple[bytes, bytes]:
        """Return the refusal, which tells nothing of the data, and the memory of a site that left a run for good."""
        kept = self.site.memory_type(run=run, method=self.method.name, left=True, approved=approved)
        return pack(run, self.method.name, Refusal(reason=reason or LEAVES)), msgspec.msgpack.encode(kept)

    def _check_sent(self, packed: Buffer) -> None:
        """Refuse to send more than the policy allows: the last check, where no handler could tell beforehand.

        How long such an answer is may depend on the data, so the site leaves.
        """
        most = self.identity.policy.max_message_bytes
        if len(packed) > most:
            raise InputError(f"the answer has {len(packed):,} bytes; the policy has max_message_bytes = {most:,}")

    def restore(self, run: bytes, memory: bytes | None) -> Site[Any]:
        """Build the site as it was after its last answer."""
        return self._site(self._remembered(run, memory))

    def _check_approval(self, question: Question, memory: Memory) -> None:
        """Ask what the steward approved: a run is admitted once, on terms that stay, and may be stopped any time."""
        approvals = self.identity.approvals
        run = memory.run
        if isinstance(question, Invitation):
            job = question.job(self.method.name)
            if memory.approved and memory.approved != hash_terms(job):
                raise ProtocolError("the run was announced on other terms before")
            if job.table and not self._tables:
                raise ProtocolError(
                    f"the terms name the table {job.table!r}; site {self.identity.name!r} has one without a name"
                )
            if not memory.approved:
                approvals.admit(run, job)
                memory.approved = hash_terms(job)
                memory.table = job.table
                return
        approvals.check(run, self.method.name, memory.approved)

    def _remembered(self, run: bytes, memory: bytes | None) -> Memory:
        kind = self.site.memory_type
        method = self.method.name
        try:
            remembered = msgspec.msgpack.decode(memory, type=kind) if memory else kind(run=run, method=method)
        except ValueError as error:
            raise ProtocolError(
                f"the stored memory of {self.identity.name!r} cannot be read; start anew"
            ) from error
        if remembered.run != run:
            raise ProtocolError(f"the stored memory of {self.identity.name!r} belongs to another run")
        if remembered.method != method:
            raise ProtocolError(
                f"this run is one of {remembered.method!r} at {self.identity.name!r}, not of {method!r}"
            )
        return remembered

    def _site(self, memory: Memory) -> Site[Any]:
        data = self._data(memory.table) if memory.table else self._data()
        made = self.site(data, self.identity, memory.run, memory, self.method)
        if memory.run not in self._scratch:
            self._scratch = {memory.run: {}}  # of one run only: nothing of another is to be found here
        made.scratch = self._scratch[memory.run]
        return made

    def _read(self, method: str, kind: str, body: bytes | memoryview) -> Question:
        allowed = self.identity.policy.methods
        if method != self.method.name or (allowed and method not in allowed):
            raise ProtocolError(f"site {self.identity.name!r} does not take part in method {method!r}")
        known = self.site.understands()
        if kind not in known:
            raise DecodeError(f"method {method!r} has no question {kind!r}")
        return _decode(body, known[kind])


def _request_of(body: bytes | memoryview, kind: type[Question]) -> tuple[object, ...]:
    return body.obj if isinstance(body, memoryview) else body, kind


@memoize_last(key=_request_of)  # one question goes to a thousand sites of a process
def _decode(body: bytes | memoryview, kind: type[Question]) -> Question:
    return decode(body, kind)

"""All sites in one process, through the same encoded bytes as on a real network.

This is the simulator and the default. A site is built anew for each question from its stored memory,
exactly as on an engine that starts a process per question. Several workers can share the sites.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

from fedgeom.crypto.keys import Identity, Roster, forget_agreements
from fedgeom.data.sites import SiteData
from fedgeom.engines.workers import Workers, check_jobs
from fedgeom.errors import DecodeError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import Buffer
from fedgeom.federation.method import Method
from fedgeom.federation.plain import check_names
from fedgeom.federation.policy import Approvals, ApproveAny, Policy
from fedgeom.federation.record import SiteResult
from fedgeom.federation.runner import SiteRunner
from fedgeom.federation.site import SiteIdentity, own_outcome
from fedgeom.federation.site_models import own_model_file

Interfere = Callable[[str, bytes], str | None]
"""From a site's name and the question's bytes to a reason to lose the site, or None."""


class EmbeddedEngine:
    """Carries bytes between the coordinator and site runners in the same process."""

    name = "embedded"

    def __init__(
        self,
        method: Method,
        sites: Sequence[SiteData],
        *,
        policy: Policy | None = None,
        interfere: Interfere | None = None,
        identities: Mapping[str, Identity] | None = None,
        memories: MutableMapping[str, bytes] | None = None,
        approvals: Mapping[str, Approvals] | None = None,
        n_jobs: int = 1,
    ):
        """Make all sites; ``approvals`` are those of sites whose stewards are to be asked, others approve any job.

        With ``n_jobs`` > 1 so many processes answer for the sites, side by side.
        """
        check_jobs(n_jobs)
        names = check_names(sites)
        known = identities or {name: Identity.generate() for name in names}
        self.method = method
        self.roster = roster = Roster({name: known[name].public for name in names})
        self.runners = {
            site.name: SiteRunner(
                method.site,
                type(method),
                SiteIdentity(
                    site.name,
                    known[site.name],
                    roster,
                    policy or Policy(),
                    (approvals or {}).get(site.name, ApproveAny()),
                ),
                lambda site=site: site,
            )
            for site in sites
        }
        self.memories: MutableMapping[str, bytes] = {} if memories is None else memories
        self._interfere = interfere
        self._n_jobs = n_jobs
        self._workers: Workers | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return tuple(self.runners)

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield each asked site's answer in turn.

        ``interfere``, if given, may return a reason why a site is lost before it answers: it lets tests
        and studies kill any site at any step.
        """
        going: dict[str, bytes] = {}
        for name, request in requests.items():
            reason = self._interfere(name, request) if self._interfere else None
            if reason is not None:
                yield name, Lost(reason)
            elif self._n_jobs > 1:
                going[name] = request
            else:
                yield name, self._answer_for(name, request)
        if going:
            if self._workers is None:
                self._workers = Workers(
                    self.names, self._n_jobs, self._answer_for, lambda name: self.memories.get(name, b"")
                )
            yield from self._workers.deliver(going)

    def _answer_for(self, name: str, request: bytes) -> Buffer | Lost:
        """Answer as a site, and keep what it remembers."""
        try:
            self.runners[name].by_reference = True
            answer, memory = self.runners[name].answer(request, self.memories.get(name))
        except DecodeError as error:
            return Lost(str(error))
        self.memories[name] = memory
        return answer

    def close(self) -> None:
        """Stop the workers, where there are any, and take over what their sites remember; forget their agreements."""
        forget_agreements()
        if self._workers is not None:
            workers = self._workers
            self._workers = None
            self.memories.update({name: memory for name, memory in workers.close().items() if memory})

    def results(self, run: bytes, *, models: bool) -> dict[str, SiteResult]:
        """Return what each site itself has in the end, with or without its own model file."""
        self.close()
        found = {}
        for name, runner in self.runners.items():
            if self.memories.get(name):
                site = runner.restore(run, self.memories[name])
                file = own_model_file(site) if models else b""
                found[name] = SiteResult(name, own_outcome(site), file)
        return found


ALIKE = ("fedgeom.protocols.preparation", "fedgeom.protocols.names")
"""Loggers whose lines begin with a site: in one process all sites would say the same."""
MOST_NAMED = 3


@contextmanager
def said_once() -> Iterator[None]:
    """Say once, at the end, what several simulated sites write into their logs alike."""
    held: dict[tuple[Any, ...], list[logging.LogRecord]] = {}

    def hold(record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        if record.levelno != logging.WARNING or not args or not str(record.msg).startswith("site %r: "):
            return True
        held.setdefault((record.name, record.msg, *args[1:]), []).append(record)
        return False

    loggers = [logging.getLogger(name) for name in ALIKE]
    for one in loggers:
        one.addFilter(hold)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(hold)
        for alike in held.values():
            first = alike[0]
            assert isinstance(first.args, tuple)
            if len(alike) > 1:
                names = ", ".join(repr(one.args[0]) for one in alike[:MOST_NAMED] if isinstance(one.args, tuple))
                more = f" and {len(alike) - MOST_NAMED:,} more" if len(alike) > MOST_NAMED else ""
                first.msg = str(first.msg).replace("site %r: ", "sites %s: ", 1)
                first.args = (names + more, *first.args[1:])
            logging.getLogger(first.name).handle(first)

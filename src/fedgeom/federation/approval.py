"""Approval: what a job is, as a steward sees and pins it, and who says whether a site answers it.

A site answers nothing about a job whose terms its steward has not approved. The terms are all that shapes what leaves:
the method, its settings, the seed, who may take part, and fedgeom's release. Coordinator and sites compute one hash
of them (`hash_terms`); a steward pins it, and every site signs it with its keys when it joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import FedgeomError, ProtocolError
from fedgeom.federation.messages import Question
from fedgeom.version import __version__


def release_series(release: str) -> str:
    """Return what must agree of a release: its first two numbers.

    >>> release_series("0.1.7")
    '0.1'
    """
    return ".".join(release.split(".")[:2])


class JobTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A job's terms: everything that shapes what leaves a site."""

    method: str
    settings: dict[str, Any]
    """All settings of the method (`Settings.terms`); the number of rounds follows from them."""
    seed: int
    participants: tuple[str, ...]
    """Everyone who may take part, in alphabetical order."""
    release: str
    """The release series of fedgeom, such as "0.1": another one may compute something else."""


def job_terms(
    method: str, settings: Mapping[str, Any], seed: int, participants: Iterable[str], release: str = __version__
) -> JobTerms:
    """Put a job's terms together."""
    return JobTerms(
        method=method,
        settings=dict(settings),
        seed=seed,
        participants=tuple(sorted(participants)),
        release=release_series(release),
    )


def hash_terms(job: JobTerms) -> bytes:
    """Hash a job's terms: what a steward pins, and what every site signs with its keys. 32 bytes."""
    return fingerprint(b"terms", msgspec.msgpack.encode(job, order="sorted"))


class Invitation(Question, kind="invitation"):
    """A question that says on what terms a run is held; a site that must be asked first answers it first."""

    def job(self, method: str) -> JobTerms:
        """Return the terms on which a run of a method is announced."""
        raise NotImplementedError(f"{type(self).__name__} does not say the job's terms")


class NotApprovedError(FedgeomError):
    """The site's steward has not approved the job yet; it may be asked again later."""


class RevokedError(ProtocolError):
    """The site's steward has revoked the approval of the job: the site leaves the run."""


REVOKED = "its steward has revoked the approval of this job"
"""What a coordinator hears of a site whose approval is gone."""


class Approvals(Protocol):
    """Says whether a site may answer, before anything about its data is looked at."""

    def admit(self, run: bytes, job: JobTerms) -> None:
        """Return where a job is approved for a run; raise `NotApprovedError` or `RevokedError` where not."""

    def check(self, run: bytes, method: str, approved: bytes) -> None:
        """Return where a run may go on that was admitted on terms with this hash, or on none (``b""``).

        Raise `RevokedError` where the approval was taken back, `ProtocolError` where there never was one.
        """


@dataclass(frozen=True)
class ApproveAny:
    """Approves every job: for sites that are simulated."""

    def admit(self, run: bytes, job: JobTerms) -> None:
        """Every job may begin."""

    def check(self, run: bytes, method: str, approved: bytes) -> None:
        """Every run may go on."""

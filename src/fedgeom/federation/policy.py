"""What a site allows, checked at the site before it answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import msgspec
import numpy as np

from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import FedgeomError, InputError, ProtocolError
from fedgeom.federation.messages import Question
from fedgeom.federation.privacy import Spent, privacy_of, spent_by
from fedgeom.federation.settings import Settings, documented
from fedgeom.memo import memoize
from fedgeom.privacy.accounting import epsilon_of
from fedgeom.version import __version__


def release_series(release: str) -> str:
    """Return what must agree of a release: its first two numbers.

    >>> release_series("0.1.7")
    '0.1'
    """
    return ".".join(release.split(".")[:2])


MOST_PURPOSE = 1000
"""So many characters may say what a job is for."""


class JobTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A job's terms: everything that shapes what leaves a site."""

    method: str
    settings: dict[str, Any]
    """All settings of the method (`Settings.terms`); the number of rounds follows from them."""
    seed: int
    participants: tuple[str, ...]
    """Everyone who may take part, in alphabetical order."""
    release: str
    """The release series of fedgeom, such as "0.1": another one may compute something else."""
    purpose: str = ""
    """What the job is for, in its author's words: a steward approves it with the rest."""
    table: str = ""
    """Which of a site's tables the job is about; "": the one that sites have who have one."""


def job_terms(
    method: str,
    settings: Mapping[str, Any],
    seed: int,
    participants: Iterable[str],
    release: str = __version__,
    purpose: str = "",
    table: str = "",
) -> JobTerms:
    """Put a job's terms together."""
    return JobTerms(
        method=method,
        settings=dict(settings),
        seed=seed,
        participants=tuple(sorted(participants)),
        release=release_series(release),
        purpose=purpose,
        table=table,
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
REFUSED = "its steward has refused this job"
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


SNAP = 0.002
"""A threshold written as a decimal number means the simple fraction that is this near: 0.667 means 2/3."""

AUTOCAST_VARIABLE = "FEDGEOM_AUTOCAST"
"""Says in which precision torch's autocast computes at a site: "bfloat16", "float16", or not at all."""
DEVICE_VARIABLE = "FEDGEOM_DEVICE"
"""The environment variable that names where a site trains networks: its own choice, in no terms. A deployed site has
``device`` in its site.toml."""


SMALLEST_MEMORY_MB = 512
"""With less a process cannot even load what it answers with: Python and its libraries take some 300 MB."""


@memoize(64)  # a site is asked for it with every sum
def _share(threshold: float | str) -> Fraction:
    try:
        exact = Fraction(threshold)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InputError(f'threshold={threshold!r} given; wanted a share such as "2/3" or 0.7') from error
    simple = exact.limit_denominator(12)
    return simple if simple > Fraction(1, 2) and abs(simple - exact) <= SNAP else exact


@documented
class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A site's own rules; a coordinator cannot loosen them.

    The same struct is the ``[policy]`` table of site.toml, what its template is written from, and what a site checks.
    """

    min_cohort: int = 3
    """The site takes part only in sums over at least this many sites."""

    threshold: float | str = "2/3"
    """The least share of a site's secret-holders that must agree before anything is unmasked: "2/3", or 0.7."""

    max_message_bytes: int = 64 * 2**20
    """The largest message, in bytes, the site reads or writes."""

    methods: tuple[str, ...] = ()
    """The methods the site answers; empty means all that it has installed."""

    runs_per_day: int = 20
    """In how many runs a deployed site takes part in 24 hours; those that are simulated do not count."""

    secure_only: bool = False
    """Whether the site refuses every answer that shows the coordinator numbers of this one site: open training,
    descriptors, distances between rows."""

    min_rows_per_class: int = 0
    """The site takes part only where each class that it contributes has at least this many rows here."""

    min_batch_size: int = 1
    """The fewest rows per gradient step that the site trains with."""

    max_rounds: int = 2048
    """The most rounds of training, or steps of another iteration, that the site joins for."""

    max_corner_share: float = 1.0
    """The largest share of a class's rows that may become corners of a hull, which others learn."""

    max_features: int = 32_768
    """The most features of which the site adds up all products of two (`Ridge`)."""

    min_rows_per_feature: float = 0.0
    """Products of features are added up only where all sites together have this many rows for each feature: a site with
    fewer rows than features is hidden by the others' rows alone."""

    sums_after_losses: bool = True
    """Whether the site goes on with sums after a loss: two sums over nearly the same sites can be subtracted, and the
    difference is a sum over the few that are missing."""

    single_site_classes: bool = True
    """Whether classes that few sites or few rows have are summed like all others: such a sum shows a site's own."""

    min_sites: int = 3
    """Unless ``single_site_classes``: a class that fewer sites have is left out of every sum."""

    min_rows: int = 10
    """Unless ``single_site_classes``: a class with fewer rows at all sites together is left out of every sum."""

    require_privacy: bool = False
    """Whether the site takes part only in runs with differential privacy (``privacy`` in their terms)."""

    max_epsilon: float = 0.0
    """The privacy budget: the most ε that all of a deployed site's runs may come to together, at ``budget_delta``; of
    sites that are simulated, one run. 0: no limit."""

    budget_delta: float = 1e-5
    """The δ at which the budget is counted."""

    colluders: int = 0
    """How many sites the noise must allow for that tell what they added, or add none: runs that allow for fewer are
    refused."""

    max_memory_mb: int = 0
    """The most memory, in MB, that the process in which a deployed site answers may take; 0: as much as there is."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if isinstance(value := getattr(self, name), np.generic):  # no message could carry it
                msgspec.structs.force_setattr(self, name, value.item())
        if self.min_cohort < 2:
            raise InputError(
                f"min_cohort={self.min_cohort} given; a sum over one site is that site's data: use ≥ 2"
            )
        if not Fraction(1, 2) < self.share <= 1:
            raise InputError(
                f"threshold={self.threshold} given; wanted above 0.5 (or two halves could be unmasked apart) "
                "and at most 1"
            )
        if self.max_message_bytes < 1 or self.runs_per_day < 0:
            raise InputError(
                f"max_message_bytes={self.max_message_bytes}, runs_per_day={self.runs_per_day} given; wanted a "
                "positive number of bytes, and 0 runs or more"
            )
        least = (
            ("min_rows_per_class", 0),
            ("min_batch_size", 1),
            ("max_rounds", 1),
            ("max_features", 1),
            ("min_rows_per_feature", 0),
            ("min_sites", 1),
            ("min_rows", 1),
            ("max_epsilon", 0),
            ("colluders", 0),
            ("max_memory_mb", SMALLEST_MEMORY_MB if self.max_memory_mb else 0),
        )
        for name, low in least:
            if getattr(self, name) < low:
                raise InputError(f"{name}={getattr(self, name)} given; wanted {low} or more")
        if not 0 < self.budget_delta < 1:
            raise InputError(f"budget_delta={self.budget_delta} given; wanted between 0 and 1, such as 1e-5")
        if not 0 <= self.max_corner_share <= 1:
            raise InputError(f"max_corner_share={self.max_corner_share} given; wanted a share from 0 to 1")

    @property
    def share(self) -> Fraction:
        """The threshold as an exact fraction."""
        return _share(self.threshold)

    def holders_needed(self, holders: int) -> int:
        """Return how many of a secret's holders must come together.

        >>> [Policy().holders_needed(n) for n in (3, 4, 5, 6, 7)]
        [2, 3, 4, 4, 5]
        """
        return max(2, math.ceil(self.share * holders))

    @property
    def class_floors(self) -> tuple[int, int]:
        """How many sites and how many rows in all a class must have to be summed; (1, 1): any class is."""
        return (1, 1) if self.single_site_classes else (self.min_sites, self.min_rows)


@documented
class StrictPolicy(Policy, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The policy of a real site: what site.toml does not say is as strict as its template.

    `Policy` itself, for simulations, refuses nothing that a method can do.
    """

    secure_only: bool = True
    min_rows_per_class: int = 5
    min_batch_size: int = 8
    max_rounds: int = 200
    max_corner_share: float = 0.5
    max_features: int = 10_000
    min_rows_per_feature: float = 1.0
    sums_after_losses: bool = False
    single_site_classes: bool = False
    max_epsilon: float = 10.0
    colluders: int = 1
    max_memory_mb: int = 8192


def reasons_against(policy: Policy, settings: Settings) -> list[str]:
    """Return why a site with this policy refuses these settings, each naming the key of the policy and its value."""
    found = []
    shown = settings.shows_one_site()
    if policy.secure_only and shown:
        found.append(f"secure_only = true, but these settings show the coordinator {shown}")
    rounds = getattr(settings, "n_rounds", 0)
    if isinstance(rounds, int) and rounds > policy.max_rounds:
        found.append(f"max_rounds = {policy.max_rounds}, but n_rounds = {rounds}")
    steps = getattr(settings, "preparing", ())
    features = max([settings.most_features, *(step.most_features for step in steps)])
    if features > policy.max_features:
        found.append(f"max_features = {policy.max_features}, but there may be {features}")
    rows = settings.rows_per_step
    if rows is not None and rows < policy.min_batch_size:
        found.append(
            f"min_batch_size = {policy.min_batch_size}, but a gradient step looks at {rows} rows (batch_size = {rows})"
        )
    if policy.class_floors != (1, 1) and privacy_of(settings) is None:
        given = (settings, *steps)
        found += [f"single_site_classes = false, but {why}" for one in given if (why := one.against_floors())]
    return found + _about_privacy(policy, settings)


def _about_privacy(policy: Policy, settings: Settings) -> list[str]:
    """Return what a site's policy has against how a run protects rows; the budget of earlier runs is kept elsewhere."""
    privacy = privacy_of(settings)
    costs = spent_by(settings)
    found = []
    if privacy is None and policy.require_privacy:
        found.append("require_privacy = true, but these settings have no privacy")
    if privacy is not None and policy.colluders > privacy.colluders:
        found.append(f"colluders = {policy.colluders}, but privacy allows for {privacy.colluders}")
    if costs is not None and policy.max_epsilon:
        spent = epsilon_of([costs.rho], policy.budget_delta)
        if spent > policy.max_epsilon * (1 + 1e-6):
            at = f"{spent:.3g} at delta = {policy.budget_delta:g}"
            found.append(f"max_epsilon = {policy.max_epsilon:g}, but this run alone spends {at}")
    return found


def check_settings(policy: Policy, settings: Settings, *, site: str) -> None:
    """Raise `ProtocolError`, with all reasons, when a site's policy does not allow these settings."""
    reasons = reasons_against(policy, settings)
    if reasons:
        raise ProtocolError(f"the policy of {site!r} does not allow these terms: {'; '.join(reasons)}")


class Budget(Protocol):
    """Keeps what a site's runs cost together."""

    def charge(self, run: bytes, method: str, spent: Spent | None) -> None:
        """Write down what a run costs, once; raise `ProtocolError` where that would exceed the budget.

        ``spent`` None: the run has no privacy, and what it costs cannot be counted.
        """


@dataclass(frozen=True)
class NoBudget:
    """Counts nothing: for sites that are simulated, whose policy caps single runs alone."""

    def charge(self, run: bytes, method: str, spent: Spent | None) -> None:
        """Every run may begin."""

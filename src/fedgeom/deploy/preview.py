"""A preview at one site: what would leave it, message by message, before it takes part in anything.

The messages, and the rows that some methods show to others (`Method.rows_shown`), are those of the method's plan, for
the site's own rows and some *phantom* sites whose rows are the site's own, a little shaken: so sizes are realistic. The
run itself is rehearsed with them in this process, under the site's policy: so what the site would refuse on the way is
found too. Nothing is sent and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Report
from fedgeom.deploy.answers import read_data
from fedgeom.deploy.federation_file import build_method, read_federation, terms_of
from fedgeom.deploy.site import file_refusals, own_report, usual_number
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.check import check_own
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.method import Method, ShownRows
from fedgeom.federation.plan import Shape
from fedgeom.federation.policy import JobTerms, Policy
from fedgeom.federation.session import Session
from fedgeom.protocols.plan import costs_of, shape_of

SHAPING = ("min_cohort", "threshold", "max_message_bytes", "single_site_classes", "min_sites", "min_rows")
"""What of the site's policy shapes the conversation; the rest may end it."""
SHAKE = 0.05
"""Phantom rows differ from the site's own by about this share of each column's spread."""


@dataclass(frozen=True)
class OutgoingMessage:
    """A message that would leave the site, so often."""

    question: str
    received: int
    answer: str
    bytes: int
    reveals: str
    times: int = 1
    bound: str = ""
    """What decides how often or how large; "" where both are known. Else they are the most."""


@dataclass(frozen=True)
class Preview:
    """What a rehearsal showed."""

    site: str
    method: str
    names: str
    """Whether label names are "shared" between the sites, or each site's "own" and matched by shape."""
    phantoms: int
    messages: list[OutgoingMessage]
    corners: list[ShownRows]
    """The rows that others would learn, where the method shows any."""
    refusals: list[str]
    """Why the site would refuse, the errors of the report among the reasons."""
    report: Report
    """How the site's table stands against the job, as the site finds when it joins."""
    broke_off: str = ""
    """Why the rehearsal ended early, if it did."""
    terms: JobTerms | None = None
    """What the steward would approve; None while there is no roster that says who may take part."""


def proposed_terms(folder: SiteFolder, federation: Path) -> JobTerms:
    """Return the terms of a federation file; where it names no sites, those of the site's roster may take part."""
    plan = read_federation(federation)
    return terms_of(federation, plan, () if plan.sites else folder.roster())


def reasons_to_refuse(folder: SiteFolder, federation: Path) -> list[str]:
    """Return why the site, as site.toml is now, would refuse to take part whatever its steward approves."""
    return file_refusals(folder, read_federation(federation))


def preview(folder: SiteFolder, federation: Path, *, sites: int | None = None, seed: int = 0) -> Preview:
    """Rehearse a federation file at a site; ``sites`` is how many sites are assumed in all."""
    config = folder.config()
    plan = read_federation(federation)
    method = build_method(federation, plan)
    policy = config.policy
    count = sites if sites is not None else usual_number(folder, plan)
    if count < max(policy.min_cohort, 2):
        raise InputError(
            f"{count} sites were assumed, but the site's policy asks for at least {policy.min_cohort}; give "
            "--sites with a larger number"
        )
    pinned = plan.sites or (folder.path / config.roster).is_file()
    terms = proposed_terms(folder, federation) if pinned else None
    own = read_data(folder, text=bool(method.preparing), table=plan.table)
    rng = np.random.default_rng(seed)
    alike = drawn if method.preparing else perturbed
    phantoms = [alike(own, rng, f"phantom-{i}") for i in range(1, count)]
    report = own_report(folder, method, own, count, plan.seed)
    refusals = file_refusals(folder, plan) + [str(one) for one in report.errors]
    # What would leave is shown also where the site's policy would refuse; that it would is found by the run itself.
    shaping = Policy(**{name: getattr(policy, name) for name in SHAPING})
    messages: list[OutgoingMessage] = []
    shown: list[ShownRows] = []
    broke_off = ""
    if check_own(method, own, shaping, sites=count, seed=plan.seed).ready:
        shape = replace(shape_of(method, [own, *phantoms], shaping, plan.seed), site=own.name)
        messages = outgoing(method, shape)
        shown = method.rows_shown(shape)
    else:
        broke_off = "the site's table is not ready, so that it would leave before anything is computed"
    refusals += [
        f"{one.extreme} of {one.rows} rows of {one.label!r} would become corners, and its policy says "
        f"max_corner_share = {config.policy.max_corner_share:g}"
        for one in shown
        if one.extreme > config.policy.max_corner_share * one.rows
    ]
    if not refusals and not broke_off:
        why = _rehearse(method, plan.seed, [own, *phantoms], policy)
        broke_off = why and _rehearse(method, plan.seed, [own, *phantoms], shaping)
        refusals += [why] if why and not broke_off else []
    return Preview(
        site=own.name,
        method=method.name,
        names="shared" if method.shares_names else "own",
        phantoms=len(phantoms),
        messages=messages,
        corners=shown,
        refusals=refusals,
        report=report,
        broke_off=broke_off,
        terms=terms,
    )


def _rehearse(method: Method, seed: int, sites: Sequence[SiteData], policy: Policy) -> str:
    """Hold a run and return why it broke off, if it did."""
    engine = EmbeddedEngine(method, sites, policy=policy)
    try:
        Session(method, b"preview " * 4, seed, engine.roster).conduct(engine)
    except FedgeomError as error:
        return str(error)
    return ""


def drawn(own: SiteData, rng: np.random.Generator, name: str) -> SiteData:
    """Return a phantom site for raw tables: the site's own rows, drawn with replacement, gaps and words as they are."""
    return replace(own.take(np.sort(rng.integers(len(own), size=len(own)))), name=name)


def perturbed(own: SiteData, rng: np.random.Generator, name: str) -> SiteData:
    """Return a phantom site: the site's own rows, moved a little, no farther out than its farthest."""
    X = own.X + SHAKE * own.X.std(axis=0) * rng.standard_normal(own.X.shape)
    norms = np.linalg.norm(X, axis=1)
    farthest = float(np.linalg.norm(own.X, axis=1).max(initial=0.0))
    X *= (np.minimum(norms, farthest) / np.where(norms > 0, norms, 1.0))[:, None]  # the disc has an edge
    return replace(own, name=name, table=X)


def outgoing(method: Method, shape: Shape) -> list[OutgoingMessage]:
    """Return what would leave the site that asks by the plan, in its order."""
    return [
        OutgoingMessage(one.kind, round(one.down), one.answer, round(one.up), one.reveals, one.times, one.bound)
        for one in costs_of(method, shape).exchanges
    ]

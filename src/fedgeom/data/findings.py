"""What is wrong, or odd, with tables: findings, each with what to do about it, collected instead of stopping at one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from fedgeom.errors import InputError

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
"""Errors first: with one of them a run would fail or lose a site."""

MOST_LINES = 40
"""How many faults an error message lists; the others are counted."""
MOST_SITES = 8
"""How many sites are named where many have the same fault."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found."""

    level: Level
    what: str
    """What was found, with row, column and value where it is about cells."""
    remedy: str = ""
    """What to do about it."""
    sites: tuple[str, ...] = ()
    """The sites that it is about; none where it is about all of them together, or about no site."""
    topic: str = ""
    """A word for machines: "gaps", "columns", "classes", "size" …"""

    def __str__(self) -> str:
        return f"{_where(self.sites, self.what)}{'; ' if self.remedy else ''}{self.remedy}"


class FaultsError(InputError):
    """Several things do not fit; ``findings`` has each of them."""

    def __init__(self, findings: Sequence[Finding], head: str = ""):
        self.findings = tuple(findings)
        lines = [head] if head else []
        lines += [str(one) for one in self.findings[:MOST_LINES]]
        if len(self.findings) > MOST_LINES:
            lines.append(f"and {len(self.findings) - MOST_LINES} more")
        super().__init__("\n".join(lines))


def fault(what: str, remedy: str = "", *, site: str = "", topic: str = "") -> Finding:
    """Return a finding that would make a run fail or lose a site.

    >>> str(fault("no rows", "leave it out", site="ulm"))
    "site 'ulm': no rows; leave it out"
    """
    return Finding(level="error", what=what, remedy=remedy, sites=(site,) if site else (), topic=topic)


@dataclass
class Collector:
    """Takes `InputError`s one after the other, so that all are said at once."""

    site: str = ""
    found: list[Finding] = field(default_factory=list)

    @contextmanager
    def take(self) -> Iterator[None]:
        """Go on after an `InputError`, which is kept."""
        try:
            yield
        except InputError as error:
            self.found += findings_of(error, self.site)

    def raise_all(self) -> None:
        """Raise what was kept, if anything was."""
        if self.found:
            raise FaultsError(self.found)


def findings_of(error: InputError, site: str = "", *, topic: str = "") -> list[Finding]:
    """Return what an error says as findings; those that name no site are about ``site``."""
    if isinstance(error, FaultsError):
        return [replace(one, sites=one.sites or ((site,) if site else ())) for one in error.findings]
    return [
        fault(str(error).removeprefix(f"site {site!r}: ").removeprefix(f"site {site!r} "), site=site, topic=topic)
    ]


ALIKE, ALIKE_TOO = ("counts",), "at the first of them; the others are alike"
"""Topics of which single sites' numbers are not worth a line each, and what is said instead."""


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with those that are the same at several sites made one, errors first.

    Of what is the same up to a colon, as counts are at sites with other numbers, the first site's numbers are shown.
    """
    same: dict[tuple[str, str, str], Finding] = {}
    for one in findings:
        said = one.what.partition(":")[0] if one.topic in ALIKE else one.what
        key = (one.level, said, one.remedy)
        before = same.get(key)
        if before is None:
            same[key] = one
            continue
        what = before.what if before.what == one.what or ALIKE_TOO in before.what else f"{before.what} {ALIKE_TOO}"
        same[key] = replace(one, what=what, sites=tuple(dict.fromkeys((*before.sites, *one.sites))))
    return sorted(same.values(), key=lambda one: LEVELS.index(one.level))


def _where(sites: Sequence[str], what: str) -> str:
    """Write a finding as a sentence about its sites."""
    if not sites:
        return what
    more = f" and {len(sites) - MOST_SITES} more" if len(sites) > MOST_SITES else ""
    named = f"site{'s' if len(sites) > 1 else ''} {', '.join(map(repr, sites[:MOST_SITES]))}{more}"
    if what.startswith("has "):
        return f"{named} {what if len(sites) == 1 else f'have {what[4:]}'}"
    return f"{named}: {what}"

"""What a run that ended well must still say: sites that were lost, answers that look odd; and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from fedgeom.data.findings import Finding
from fedgeom.errors import printable

LEAVES = "not ready: the site's data do not fit this question; its own log says why"
"""All that a coordinator hears of a site that leaves a run, whatever the reason."""

ABSENT = "it did not come, and was never asked"
"""Why a site of the terms that the engine could not reach has no part in the run."""

_REMEDIES = (
    (
        re.escape(ABSENT),
        "start the site (fedgeom site start), or give it longer to come (wait in the federation file)",
    ),
    (
        r"max_message_bytes|the limit is",
        "raise max_message_bytes in the policy of the sites (site.toml, or [policy] in a federation file) above that "
        "size, or make messages smaller: fewer rows or columns, or other settings of the method",
    ),
    (
        re.escape(LEAVES),
        "its steward finds in the site's own log, and by fedgeom site check, what does not fit: gaps, labels, or "
        "classes with too few rows",
    ),
    (
        r"weights make this a sum",
        "so says the site's policy (min_cohort), which its steward may lower knowingly",
    ),
    (
        r"sites are left|policy .*asks for|holders",
        "bring the other lost sites back, invite more sites, or let the site's steward lower min_cohort knowingly",
    ),
    (
        r"max_memory_mb|more memory",
        "raise max_memory_mb in the site's site.toml, or use fewer rows or columns",
    ),
    (
        r"does not take part|policy",
        "ask the site's steward whether its policy (site.toml) is meant to refuse this; fedgeom site preview shows it",
    ),
    (
        r"approv|revoked",
        "ask the site's steward to approve the job: fedgeom site approve",
    ),
    (
        r"fewer than \d+ rows|too few rows|no rows",
        "merge or drop small classes at that site, or leave the site out",
    ),
)
"""What to do, by words of the reason for which a site was lost; the first that fits."""

_OTHERWISE = "see the site's log and events.jsonl of the run; once the cause is mended, run again with all sites"


class RunWarning(msgspec.Struct, frozen=True):
    """Something that a run's reader must know."""

    what: str
    """What happened."""
    why: str = ""
    """The reason or the evidence."""
    remedy: str = ""
    """What to do about it."""
    site: str = ""
    """The site that it is about, where it is about one."""

    def __str__(self) -> str:
        return (
            self.what
            + (f": {self.why}" if self.why else "")
            + (f". {_capital(self.remedy)}" if self.remedy else "")
        )


def lost_site(site: str, reason: str) -> RunWarning:
    """Return what to say of a site that dropped out.

    >>> lost_site("ulm", "the answer would have 72 bytes; max_message_bytes = 64").remedy.partition(" in ")[0]
    'raise max_message_bytes'
    """
    remedy = next((what for words, what in _REMEDIES if re.search(words, reason)), _OTHERWISE)
    return RunWarning(_lost(site), reason, remedy, site)


def lost_sites(lost: Mapping[str, str]) -> list[RunWarning]:
    """Return a warning for each site that dropped out, in alphabetical order."""
    return [lost_site(site, reason) for site, reason in sorted(lost.items())]


def lost_in(warnings: Iterable[RunWarning]) -> dict[str, str]:
    """Return the sites that dropped out, and why, from a run's warnings.

    >>> lost_in([*lost_sites({"ulm": "no answer"}), away_for_a_while("bonn", "question 4")])
    {'ulm': 'no answer'}
    """
    return {one.site: one.why for one in warnings if one.site and one.what == _lost(one.site)}


def _lost(site: str) -> str:
    return f"site {printable(site)!r} was lost"


def away_for_a_while(site: str, missed: str) -> RunWarning:
    """Return what to say of a site that did not answer some questions, and came back.

    >>> str(away_for_a_while("ulm", "question 4 (sum.confirm): no answer within 30 s")).partition(". ")[0]
    "site 'ulm' was away for a while, and missed question 4 (sum.confirm): no answer within 30 s"
    """
    what = f"site {printable(site)!r} was away for a while, and missed {missed}"
    remedy = (
        "it answered later ones. A sum or a round for which it sent nothing is without its rows; where it only did not "
        "confirm a sum (sum.confirm, sum.unmask), they are in it"
    )
    return RunWarning(what, remedy=remedy, site=site)


def warning_of(finding: Finding) -> RunWarning:
    """Return what was found before a run, as one of its warnings."""
    site = finding.sites[0] if len(finding.sites) == 1 else ""
    return RunWarning(str(replace(finding, remedy="")), remedy=finding.remedy, site=site)


def written(warnings: Iterable[RunWarning]) -> str:
    """Return warnings as lines for people."""
    return "\n".join(f"warning: {warning}" for warning in warnings)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

"""What looks odd in one site's table: raw counts, unscaled or numbering columns, a lone class, alike label names.

Nothing here stops a run; what does is in `fedgeom.data.checks`. Thresholds are set so that a usual table of
measurements is not spoken of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from fedgeom.data.findings import Finding
from fedgeom.data.rows import dense
from fedgeom.data.sites import SiteData
from fedgeom.data.table_facts import TableFacts
from fedgeom.data.tables import listed

MANY_COLUMNS = 50
"""From so many columns on a table of whole numbers, or of mostly zeros, looks like counts of molecules."""
SPARSE = 0.3
"""Counts of molecules have at least this share of zeros."""
LARGEST_LOG = 20.0
"""Logarithms of counts are not larger."""
PIXEL = 255.0
"""The largest value of a pixel: images are whole numbers with many zeros, too."""
UNSCALED = 1000.0
"""Columns whose deviations differ by more than this factor are on different scales."""
ENOUGH_ROWS = 20
"""In fewer rows a column that counts 1, 2, 3 … may be a measurement."""
NUMBERING = re.compile(
    r"(^|[^a-z])(id|index|patient|patient_?id|subject|record|row|nr|number|mrn)$", re.IGNORECASE
)
"""What columns that number rows are called."""

Kind = Literal["counts", "logarithms", ""]


def inspect_table(site: SiteData, facts: TableFacts | None = None) -> list[Finding]:
    """Return what a steward should know of a table before it is learnt from."""
    if not len(site) or not site.shape[1]:
        return []
    facts = facts or TableFacts.of(site)
    return [*_kind_findings(site, facts), *_numbering(site, facts), *_class_findings(site)]


def kind_of(facts: TableFacts) -> Kind:
    """Say whether a table looks like raw counts of molecules, or like their logarithms; "" for anything else."""
    if facts.columns < MANY_COLUMNS or facts.negative or facts.sparsity < SPARSE:
        return ""
    top = float(facts.high.max())
    if facts.whole.all():
        return "counts" if top > 1 and top != PIXEL else ""
    return "logarithms" if 1 < top <= LARGEST_LOG else ""


def _kind_findings(site: SiteData, facts: TableFacts) -> list[Finding]:
    kind = kind_of(facts)
    if kind == "counts":
        low, high = facts.depths
        return [
            Finding(
                level="warning",
                what=f"looks like raw counts: whole numbers up to {facts.high.max():,.0f}, {facts.sparsity:.0%} zeros, "
                f"{low:,.0f} to {high:,.0f} in a row",
                remedy="how deeply a row was sequenced would outweigh what it is: let the run prepare them, prepare = "
                '"counts" (one depth, logarithms, variable genes, components), or use a joint embedding',
                sites=(site.name,),
                topic="counts",
            )
        ]
    if kind == "logarithms":
        return [
            Finding(
                level="note",
                what=f"looks like logarithms of counts: numbers up to {facts.high.max():.3g}, {facts.sparsity:.0%} "
                "zeros",
                sites=(site.name,),
                topic="counts",
            )
        ]
    return []


def unscaled(sites: Sequence[SiteData]) -> list[Finding]:
    """Return which tables have columns on very different scales, for methods that do not scale them."""
    found = [_scale_finding(site, TableFacts.of(site)) for site in sites if len(site)]
    return [one for one in found if one is not None]


def _scale_finding(site: SiteData, facts: TableFacts) -> Finding | None:
    varied = np.flatnonzero(facts.spread > 0)
    if len(varied) < 2 or kind_of(facts):
        return None
    spread = facts.spread[varied]
    wide, narrow = varied[int(spread.argmax())], varied[int(spread.argmin())]
    if facts.spread[wide] <= UNSCALED * facts.spread[narrow]:
        return None

    def said(at: np.intp) -> str:
        name = repr(site.columns[at]) if site.columns else f"number {at}"
        return f"{name} varies by {facts.spread[at]:.3g}"

    return Finding(
        level="warning",
        what=f"columns are on very different scales: {said(wide)}, {said(narrow)}",
        remedy="this method takes columns as they are, so that the largest decide: divide each by one number, the same "
        "at all sites",
        sites=(site.name,),
        topic="scale",
    )


def _numbering(site: SiteData, facts: TableFacts) -> list[Finding]:
    """Find columns that number the rows."""
    if len(site) < ENOUGH_ROWS or not site.columns:
        return []
    found: list[str] = []
    if not facts.whole.any():
        return []
    # Distinct whole numbers without a gap span as many values as there are rows.
    span = np.where(np.isfinite(facts.high - facts.low), facts.high - facts.low, 0.0)
    candidates = np.flatnonzero(facts.whole & (facts.finite == len(site)) & (span >= len(site) - 1))
    for at in candidates.tolist():
        suspect = span[at] == len(site) - 1 or NUMBERING.search(site.columns[at])
        if suspect and len(np.unique(dense(site.table[:, [at]], site.name))) == len(site):
            found.append(site.columns[at])
    if not found:
        return []
    return [
        Finding(
            level="warning",
            what=f"these columns seem to number the rows, or the patients: {listed(found, 5)}",
            remedy="leave them out: name the columns to use, columns = […]",
            sites=(site.name,),
            topic="numbering",
        )
    ]


def _class_findings(site: SiteData) -> list[Finding]:
    counts = site.class_counts()
    found = []
    if len(counts) == 1:
        found.append(
            Finding(
                level="note",
                what=f"all labelled rows are of one class, {next(iter(counts))!r}",
                remedy="it can take part where other sites have more; it cannot tell classes apart by itself",
                sites=(site.name,),
                topic="classes",
            )
        )
    return found + spelling_findings({site.name: counts})


def spelling_findings(words: Mapping[str, Iterable[str]]) -> list[Finding]:
    """Find label names that differ only in case, spaces, signs or a plural; ``words`` has each site's."""
    alike: dict[str, dict[str, list[str]]] = {}
    for site, mine in words.items():
        for word in mine:
            alike.setdefault(_plain(word), {}).setdefault(word, []).append(site)
    found = []
    for spellings in alike.values():
        sites = {site for mine in spellings.values() for site in mine}
        by_one = any(all(site in mine for mine in spellings.values()) for site in sites)
        if len(spellings) < 2 or (
            by_one and len(words) > 1
        ):  # what one site writes in two ways is said of that site
            continue
        shown = ", ".join(f"{word!r} at {_some(mine)}" for word, mine in sorted(spellings.items()))
        found.append(
            Finding(
                level="warning",
                what=f"these label names look like one class: {shown}",
                remedy="if they are, write them alike; otherwise each is a class of its own",
                sites=tuple(sites) if len(words) == 1 else (),
                topic="words",
            )
        )
    return found


def _plain(word: str) -> str:
    """Return a label name without what spellings differ by.

    >>> _plain("CD4 T-Cells") == _plain("cd4_T cell")
    True
    """
    if re.fullmatch(r"[+-]?[\d.,]+", word):
        return word
    # Signs between two digits, and those at an edge (CD4+, CD4-), tell names apart.
    letters = re.sub(r"(?<=[^\W_])[\W_]+(?=[^\W\d_])|(?<=[^\W\d_])[\W_]+(?=\w)|\s+", "", word.casefold())
    return letters.removesuffix("s") if len(letters) > 3 else letters


def _some(sites: list[str]) -> str:
    return ", ".join(sites[:3]) + (f" and {len(sites) - 3} more" if len(sites) > 3 else "")

"""A report on whether tables are ready for a run: what each site has, and everything that was found at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from fedgeom.data.findings import LEVELS, FaultsError, Finding, Level, merged
from fedgeom.data.rows import not_finite
from fedgeom.data.sites import SiteData
from fedgeom.data.table_facts import TableFacts


@dataclass(frozen=True)
class SiteSummary:
    """What one site's table has."""

    name: str
    rows: int
    columns: int
    classes: dict[str, int]
    """How many rows each class has, by its label."""
    unlabelled: int
    gaps: int
    """How many cells are no finite numbers."""

    @classmethod
    def of(cls, site: SiteData, facts: TableFacts | None = None) -> SiteSummary:
        """Count what a table has; ``facts`` on it, where they are known."""
        counts = site.class_counts()
        known = site.shape[0] * site.shape[1] - int(facts.finite.sum()) if facts is not None else None
        gaps = len(not_finite(site.table)) if known is None else known
        return cls(site.name, len(site), site.shape[1], counts, len(site) - sum(counts.values()), gaps)


@dataclass(frozen=True)
class Report:
    """What was found before a run."""

    method: str
    """The method that the tables were held against; "" where it was none."""
    sites: tuple[SiteSummary, ...]
    findings: tuple[Finding, ...]
    """Everything that was found, errors first."""

    @classmethod
    def of(cls, method: str, sites: Iterable[SiteSummary], findings: Iterable[Finding]) -> Report:
        """Put a report together; what is the same at several sites is said once."""
        return cls(method, tuple(sites), tuple(merged(findings)))

    @property
    def ready(self) -> bool:
        """Whether nothing was found that makes a run fail, or lose a site."""
        return not self.at("error")

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes a run fail, or lose a site."""
        return self.at("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is likely to be a mistake."""
        return self.at("warning")

    def at(self, level: Level) -> tuple[Finding, ...]:
        """Return the findings of a level."""
        return tuple(one for one in self.findings if one.level == level)

    def raise_errors(self, *, but: tuple[str, ...] = ()) -> None:
        """Raise one `InputError` that lists all errors, if there are any on other topics than some."""
        errors = [one for one in self.errors if one.topic not in but]
        if len(errors) == 1:
            raise FaultsError(errors)
        if errors:
            raise FaultsError(errors, head=f"not ready, {len(errors)} faults:")

    def plain(self) -> dict[str, Any]:
        """Return the report as dictionaries and lists, for JSON."""
        return {
            "ready": self.ready,
            "method": self.method,
            "sites": [asdict(site) for site in self.sites],
            "findings": [asdict(one) for one in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{one.level}: {one}" for one in self.findings]
        return "\n".join([self._verdict(), *lines])

    def __repr__(self) -> str:
        return f"Report({self._verdict()})"

    def _repr_html_(self) -> str:
        items = "".join(f"<li><b>{one.level}</b> {escape(str(one))}</li>" for one in self.findings)
        return f"<b>{escape(self._verdict())}</b><ul>{items}</ul>"

    def _verdict(self) -> str:
        counts = [(len(self.at(level)), level) for level in LEVELS]
        said = ", ".join(f"{n} {level}{'s' if n > 1 else ''}" for n, level in counts if n)
        return f"{'ready' if self.ready else 'not ready'}{f': {said}' if said else ''}"


def summaries(sites: Sequence[SiteData], facts: Sequence[TableFacts] = ()) -> list[SiteSummary]:
    """Return what each site's table has; ``facts`` on each, where they are known."""
    return [SiteSummary.of(site, facts[at] if facts else None) for at, site in enumerate(sites)]

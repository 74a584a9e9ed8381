"""Whether a run over tables that one process sees can work: everything that is wrong, at all sites, at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedgeom.data.alignment import align, compare_raw, compare_tables
from fedgeom.data.doubts import doubts, log_counts_doubts
from fedgeom.data.kinds import Kind, kinds_of
from fedgeom.data.labels import LabelType, in_words, is_one_type, joint_type, label_type
from fedgeom.data.rows import dense_bytes, free_memory
from fedgeom.data.sites import SiteData, as_sites
from fedgeom.data.tables import listed
from fedgeom.data.validation import (
    Collector,
    Finding,
    Level,
    Report,
    TableFacts,
    check_finite,
    fault,
    inspect_table,
    summaries,
)
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import LEAST_ROWS
from fedgeom.federation.holdout import Holdout, part_rows
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy, reasons_against
from fedgeom.federation.preparation import NoColumnLeftError, fit_plain
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.steps import Columns
from fedgeom.methods.catalogue import as_method
from fedgeom.methods.label_names import look_ahead
from fedgeom.methods.ridge.method import Ridge
from fedgeom.methods.ridge.settings import USUAL
from fedgeom.preparation import prepared_method
from fedgeom.preparation.pca import PCA
from fedgeom.protocols.names import CountNames
from fedgeom.protocols.plan import Costs, costs_of, shape_of
from fedgeom.protocols.preparation import left_out
from fedgeom.protocols.secure_sum.rules import draw_of

ANNOUNCED = 32 * 2**20
"""From this size on a table or a message is worth a note."""


@dataclass(frozen=True)
class MessageSizes:
    """Bytes of the largest messages of a run."""

    sent: int
    """The largest that a site sends."""
    received: int
    """The largest that a site is sent."""
    kind: str
    """The question with the largest of all."""
    remedy: str = ""
    """What makes that smaller."""

    @property
    def largest(self) -> int:
        """Bytes of the largest message."""
        return max(self.sent, self.received)


def planned_sizes(method: Method, data: Sequence[SiteData], policy: Policy, seed: int) -> MessageSizes:
    """Return how large messages become by the plan; rows are looked at only where a bound of the sizes is large."""
    shape = shape_of(method, data, policy, seed)
    foreseen = costs_of(method, replace(shape, tables=()))
    sizes = _sizes(foreseen)
    known = max(one.largest for one in foreseen.exchanges if not one.bound)
    if sizes.largest < min(policy.max_message_bytes, ANNOUNCED) or known > policy.max_message_bytes:
        return sizes
    return _sizes(costs_of(method, shape))


def _sizes(costs: Costs) -> MessageSizes:
    most = max(costs.exchanges, key=lambda one: one.largest)
    sent = max(one.most_up for one in costs.exchanges)
    received = max(one.most_down for one in costs.exchanges)
    return MessageSizes(round(sent), round(received), most.kind, most.remedy)


def size_faults(sizes: MessageSizes, data: Sequence[SiteData], policy: Policy) -> list[Finding]:
    """Say whether messages are larger than the policy allows, or large enough to be spoken of."""
    limit = min(policy.max_message_bytes, LARGEST_MESSAGE)
    if sizes.largest > limit:
        what = (
            f"the largest message, {sizes.kind!r}, has about {sizes.largest:,} bytes, for {data[0].shape[1]:,} "
            f"columns; the limit is {limit:,} (max_message_bytes in the policy)"
        )
        remedy = sizes.remedy or "take fewer columns, or settings with smaller messages"
        enough = -(-sizes.largest // 2**20) * 2**20
        if enough <= LARGEST_MESSAGE:
            remedy += f"; or allow max_message_bytes = {enough:,}"
        return [fault(what, remedy, topic="size")]
    if sizes.largest < ANNOUNCED:
        return []
    what = (
        f"messages are large: a site sends up to about {sizes.sent:,} bytes, and is sent {sizes.received:,}; the "
        f"limit is {limit:,}"
    )
    return [Finding(level="note", what=what, topic="size")]


def memory_findings(data: Sequence[SiteData], sizes: MessageSizes | None) -> list[Finding]:
    """Compare what a run in this process takes with what is free: all tables, copies of one, and all messages."""
    tables = [8 * len(site) * site.shape[1] for site in data]
    largest = 0 if sizes is None else sizes.largest
    unmade = sum(dense_bytes(site.table) for site in data if "X" not in vars(site))
    needed = unmade + 2 * max(tables) + (len(data) + 6) * largest
    free = free_memory()
    if sum(tables) + needed < ANNOUNCED * 16 and (free is None or needed < free):
        return []
    held = f"the tables take {_size(sum(tables))} of memory, and a run here about {_size(needed)} more"
    if free is None or needed < free:
        return [Finding(level="note", what=held, topic="memory")]
    return [
        Finding(
            level="warning",
            what=f"{held}; {_size(free)} are free",
            remedy="use fewer columns or rows (in a deployment, each site holds its own table only)",
            topic="memory",
        )
    ]


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


NAMES = "vocabulary"
"""The topic of what sites' label names will do to a method that goes by them."""

REHEARSED_CELLS = 2**24
"""Raw tables of up to so many cells are prepared before a run, to look at them as the method will."""

HARMLESS = ("size", "policy", "classes", "labels")
"""With errors on these topics, what concerns all tables together can still be looked at."""


def check(
    method: Method | type[Method] | str, sites: Sequence[SiteData], policy: Policy | None = None, *, seed: int = 0
) -> Report:
    """Check what `fedgeom.run` checks before its first question, and look for likely mistakes.

    Parameters
    ----------
    method: a method, its class or its name
        As in `fedgeom.run`.
    sites: a list of `SiteData`
        The sites, with different names.
    policy: a `Policy` or None; None if not given
        The rules of every site. None: those of `Policy()`.
    seed: a whole number; 0 if not given
        As in `fedgeom.run`.

    Returns
    -------
    Report
        Faults are collected, not raised: ``report.errors`` would make a run fail or lose a site, ``report.warnings``
        are likely mistakes, ``report.ready`` says whether there are no errors. Each finding says what to do.
    """
    given = as_sites(sites)
    fitted, _ = fit_to_rows(as_method(method), given, policy, seed)
    return check_aligned(fitted, given, policy, seed=seed).report


def fit_to_rows(
    method: Method, sites: Sequence[SiteData], policy: Policy | None = None, seed: int = 0
) -> tuple[Method, str]:
    """Return a method with settings that were left open fitted to all sites' rows and the policy, and why they are.

    Only one process sees all rows. So in a deployment, settings are as the job says.
    """
    if not isinstance(method, Ridge) or method.features != USUAL["features"] or privacy_of(method) is not None:
        return method, ""
    data = [method.normalise_labels(site) for site in sites]
    share = 0.0 if method.holdout is None else Holdout.read(method.holdout, "holdout").share
    aside = sum(math.ceil(share * rows) for site in data for rows in site.class_counts().values())
    least = (policy or Policy()).min_rows_per_feature
    return method.for_rows(sum(map(len, data)) - aside, _width(method, data, seed), least, len(data))


def _width(method: Method, sites: Sequence[SiteData], seed: int) -> int:
    """Return how many columns the method sees; of prepared rows that is rehearsed."""
    columns = sites[0].shape[1]
    if not method.preparing:
        return columns
    components = [step.n_components for step in method.preparing if isinstance(step, PCA)]
    if components:
        return int(components[-1])
    if sum(len(site) * site.shape[1] for site in sites) > REHEARSED_CELLS:
        return columns
    try:
        return fit_plain(method.preparing, sites, seed).columns.width
    except InputError:  # which is told where the tables are checked
        return columns


@dataclass(frozen=True)
class CheckedSites:
    """Sites that were looked at before a run, and what was found."""

    report: Report
    sites: list[SiteData]
    """With their columns in one order, as a run needs them."""
    kinds: tuple[Kind, ...] = ()
    """The kinds of their columns, where these have names."""
    labels: LabelType = "text"
    """Of what type predictions are to be: that of the sites' labels."""
    raw: bool = False
    """Whether their rows are yet to be prepared: then the sites agree on columns themselves."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of their columns, where they are known."""
        return () if self.raw else next((site.columns for site in self.sites if site.columns), ())


def check_aligned(
    method: Method | None, sites: Sequence[SiteData], policy: Policy | None = None, *, seed: int = 0
) -> CheckedSites:
    """Return the report, and the sites as a run needs them; see `check`.

    Without a method only what every method needs is looked at.
    """
    given = _site_list(sites)
    labels, mixed = _joint_labels(given)
    if method is None or not getattr(method, "shared", True):  # sites with words of their own need no common type
        mixed = []
    given = [_in_words(site) for site in given]
    if method is not None and method.preparing:
        report = check_raw(method, given, policy, seed=seed)
        return CheckedSites(replace(report, findings=(*report.findings, *mixed)), given, raw=True, labels=labels)
    data, findings = align(given)
    findings += mixed
    facts = {site.name: TableFacts.of(site) for site in data}
    for site in data:
        findings += inspect_table(site, facts[site.name])
    rules = policy or Policy()
    fits = not _stops(findings)
    counted = summaries(given, [facts[site.name] for site in data])
    if fits:
        findings += [*compare_tables(data, facts), *doubts(data)]
    if method is None:
        return CheckedSites(Report.of("", counted, [*findings, *_table_findings(data)]), data, labels=labels)
    findings += _cohort_findings(method, data, rules)
    findings += _site_findings(method, data, policy, seed)
    whole = not _stops(findings)
    if fits:
        findings += _joint_findings(method, data, rules, seed, whole=whole)
    named = any(site.columns for site in data)
    kinds = kinds_of([facts[site.name] for site in data if len(site)]) if fits and named else ()
    return CheckedSites(Report.of(method.name, counted, _without_echoes(findings)), data, kinds, labels=labels)


def check_raw(method: Method, data: list[SiteData], policy: Policy | None, *, seed: int) -> Report:
    """Look at raw tables in the light of the steps that prepare them, and where they are small, at what comes out."""
    rules = policy or Policy()
    findings = [one for site in data for one in inspect_table(site) if one.topic != "counts"]
    findings += [*compare_raw(data), *_raw_doubts(method, data)]
    findings += _cohort_findings(method, data, rules)
    findings += _site_findings(method, data, policy, seed)
    if not _stops(findings) and sum(len(site) * site.shape[1] for site in data) <= REHEARSED_CELLS:
        together = Collector()
        with together.take():
            made = prepared_method(method, data, seed, rules.class_floors)
            findings += _left_out(data, made.preparation.raw)
            findings += _site_findings(made.method, made.sites, policy, seed)
            if not _stops(findings):
                findings += _joint_findings(made.method, made.sites, rules, seed, whole=True)
        findings += together.found
    return Report.of(method.name, summaries(data), _without_echoes(findings))


def _raw_doubts(method: Method, data: Sequence[SiteData]) -> list[Finding]:
    """Look for likely mistakes in tables that are to be prepared, in the light of the steps."""
    found = doubts(data, raw=True)
    if any(step.name == "log-counts" for step in method.preparing):
        found += log_counts_doubts(data, {site.name: TableFacts.of(site) for site in data})
    return found


def _left_out(data: Sequence[SiteData], raw: Columns) -> list[Finding]:
    """Say which columns and categories a run goes on without."""
    return [
        Finding(level="note", what=f"{what}: {listed(names, 8)}", sites=(site.name,), topic="columns")
        for site in data
        for what, names in left_out(site, raw).items()
    ]


def check_own(method: Method | None, own: SiteData, policy: Policy, *, sites: int = 1, seed: int = 0) -> Report:
    """Look at one site's table, as its steward can: against a method's terms among so many sites, or by itself."""
    raw = method is not None and bool(method.preparing)
    findings = [*inspect_table(own), *_same_everywhere([own])]
    findings += doubts([own]) if method is None or not raw else _raw_doubts(method, [own])
    if method is None:
        return Report.of("", summaries([own]), [*findings, *_table_findings([own])])
    if raw:
        findings = [
            one
            for one in findings
            if one.topic != "constants" and not (one.topic == "counts" and one.what.startswith("looks like"))
        ]
    for why in reasons_against(policy, method):
        findings.append(fault(f"its policy says {why}", site=own.name, topic="policy"))
    findings += _site_findings(method, [own], policy, seed)
    if not _stops(findings) and not any(one.topic == "size" for one in findings):
        # The others' rows are not here: rows like ours stand for them.
        others = [own, *(replace(own, name=f"{own.name} {at}") for at in range(1, max(sites, 1)))]
        findings += _like_ours(method, others, policy, seed)
    return Report.of(method.name, summaries([own]), findings)


def _like_ours(method: Method, sites: list[SiteData], policy: Policy, seed: int) -> list[Finding]:
    """Look at the first site among others like it, its rows prepared where the method prepares them."""
    if not method.preparing:
        return _joint_findings(method, sites, policy, seed, whole=False)
    if sum(len(site) * site.shape[1] for site in sites) > REHEARSED_CELLS:
        return []
    together = Collector()
    with together.take():
        made = prepared_method(method, sites, seed, policy.class_floors)
        together.found += _site_findings(made.method, made.sites[:1], policy, seed)
        if not _stops(together.found):
            together.found += _joint_findings(made.method, made.sites, policy, seed, whole=False)
    return together.found


def _same_everywhere(data: Sequence[SiteData]) -> list[Finding]:
    facts = {site.name: TableFacts.of(site) for site in data}
    return [one for one in compare_tables(data, facts) if one.topic == "constants"]


def _table_findings(data: Sequence[SiteData]) -> list[Finding]:
    """Find gaps, which no method takes, and say of rows without a label that most methods do not take them."""
    found = []
    for site in data:
        collector = Collector(site.name)
        with collector.take():
            check_finite(site)
        found += collector.found
        without = len(site) - int(site.has_label.sum())
        if without:
            what = f"{without:,} of {len(site):,} rows have no label"
            remedy = "only XCLP and XCLPTraining use such rows"
            found.append(Finding(level="note", what=what, remedy=remedy, sites=(site.name,), topic="labels"))
    return found


def _stops(findings: Sequence[Finding]) -> bool:
    """Say whether nothing can be computed over all rows: there are gaps, or columns that differ."""
    return any(one.level == "error" and one.topic not in HARMLESS for one in findings)


def _site_list(sites: Sequence[Any]) -> list[SiteData]:
    """Return the sites as a list; say what is wanted when something else was given."""
    data = list(sites)
    if not data:
        raise InputError("no sites were given; wanted a list of SiteData, for example from fedgeom.split(...)")
    strange = next((one for one in data if not isinstance(one, SiteData)), None)
    if strange is not None:
        raise InputError(
            f"a {type(strange).__name__} was given among the sites; wanted fedgeom.SiteData(name, X, y), or a list of "
            "them from fedgeom.split(X, y)"
        )
    names = [site.name for site in data]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(f"site names must differ; given more than once: {', '.join(twice)}")
    return data


def _joint_labels(sites: Sequence[SiteData]) -> tuple[LabelType, list[Finding]]:
    """Return of what type all sites' labels are; where they differ, text, and what to say of it."""
    found = {site.name: label_type(site.y) for site in sites if site.has_label.any()}
    if is_one_type(found.values()):
        return joint_type(found.values()), []
    by_type = {one: [name for name, its in found.items() if its == one] for one in sorted(set(found.values()))}
    said = "; ".join(f"{one} at {listed(names, 3)}" for one, names in by_type.items())
    what = f"labels are of different types: {said}. They are compared as text, and predictions are text"
    remedy = "give all sites labels of one type, as 1 and 'yes' cannot mean the same"
    return "text", [Finding(level="warning", what=what, remedy=remedy, topic="labels")]


def _in_words(site: SiteData) -> SiteData:
    """Return a site whose labels, as text, are their words: 2.0 is the word 2."""
    words = in_words(site.y)
    return site if words is site.y else replace(site, y=words)


def _cohort_findings(method: Method, data: Sequence[SiteData], policy: Policy) -> list[Finding]:
    """Find what follows from the policy, the settings and the number of sites alone."""
    found = []
    least = max(policy.min_cohort, int(getattr(method, "min_sites", 1)))
    if len(data) < least:
        some = f"{len(data)} sites were" if len(data) > 1 else "one site was"
        what = f"{some} given; sums need {least} (min_cohort in the policy, min_sites of the method)"
        remedy = "add sites, or lower them knowingly: a sum over few sites hides little"
        found.append(fault(what, remedy, topic="policy"))
    if policy.methods and method.name not in policy.methods:
        what = f"the policy allows the methods {', '.join(policy.methods)}, not {method.name}"
        found.append(fault(what, "name it in methods, or take one of them", topic="policy"))
    for why in reasons_against(policy, method):
        found.append(fault(f"the policy says {why}", "change the settings, or the policy", topic="policy"))
    return found


def _site_findings(method: Method, data: Sequence[SiteData], policy: Policy | None, seed: int) -> list[Finding]:
    """Let every site look at its own table, and at the rows that are left to learn from, as it does when it joins."""
    engine = EmbeddedEngine(method, data, policy=policy)
    found = list[Finding]()
    for name, runner in engine.runners.items():
        collector = Collector(name)
        with collector.take():
            runner.restore(bytes(32), None).examine(method, seed)
        found += collector.found
    return found


def _joint_findings(
    method: Method, data: Sequence[SiteData], policy: Policy, seed: int, *, whole: bool
) -> list[Finding]:
    """Look at what concerns all tables together: classes, sizes of messages, memory."""
    together = Collector()
    if whole:
        parts = [part_rows(site, method, seed, policy) for site in data]
        data = [learnt for learnt, _ in parts]
        together.found += _test_findings(method, [aside for _, aside in parts])
    with together.take():
        draw = draw_of(method)
        if draw is not None:
            draw.check_sizes(len(data), policy.min_cohort)
        method.check_limits(data, policy)
    sizes: MessageSizes | None = None
    if not together.found and all(len(site) for site in data):
        try:
            sizes = planned_sizes(method, data, policy, seed)
            together.found += size_faults(sizes, data, policy)
        except NoColumnLeftError as error:
            if whole:
                together.found.append(Finding(level="error", what=str(error), topic="floors"))
        except InputError:
            pass  # what no plan can be made for is told by what follows
    if whole:
        with together.take():
            together.found += method.check(data, policy, seed)
        together.found += _rare_classes(method, data, policy)
        together.found += [
            Finding(level="warning", what=f"{one.what}: {one.why}", remedy=one.remedy, topic=NAMES)
            for one in look_ahead(method, data)
        ]
    too_large = any(one.topic == "size" and one.level == "error" for one in together.found)
    return together.found + memory_findings(data, None if too_large else sizes)


def _test_findings(method: Method, aside: Sequence[SiteData]) -> list[Finding]:
    """Say of which sites there will be no figures of their own, where rows are kept aside for a test."""
    few = tuple(part.name for part in aside if len(part) < LEAST_ROWS)
    if method.holdout is None or not few:
        return []
    what = f"fewer than {LEAST_ROWS} rows are kept aside for testing"
    remedy = "they count among all sites' figures, but get none of their own: keep a larger share aside (holdout)"
    return [Finding(level="note", what=what, remedy=remedy, sites=few, topic="holdout")]


def _rare_classes(method: Method, data: Sequence[SiteData], policy: Policy) -> list[Finding]:
    """Find classes that so few sites or rows have that the policy leaves them out of every sum."""
    if CountNames not in method.site.all_sums(method) or policy.class_floors == (1, 1):  # type: ignore[attr-defined]
        return []
    least_sites, least_rows = policy.class_floors
    where: dict[str, list[int]] = {}
    for site in data:
        for word, rows in site.class_counts().items():
            where.setdefault(word, []).append(rows)
    rare = {word: n for word, n in where.items() if len(n) < least_sites or sum(n) < least_rows}
    if not rare:
        return []
    some = [f"{word!r} ({len(n)} site{'s' * (len(n) > 1)}, {sum(n)} rows)" for word, n in sorted(rare.items())]
    shown = f"{', '.join(some[:8])}{f' and {len(some) - 8} more' if len(some) > 8 else ''}"
    what = (
        f"{len(rare)} of {len(where)} classes are left out of every sum, with their rows: {shown}; the policy wants "
        f"{least_sites} sites and {least_rows} rows (min_sites, min_rows)"
    )
    remedy = "merge rare classes, or set single_site_classes = true knowingly"
    level: Level = "error" if len(where) - len(rare) < 2 else "warning"
    return [Finding(level=level, what=what, remedy=remedy, topic="classes")]


def _without_echoes(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out what single sites say of a size that is said of all together."""
    joint = {one.topic for one in findings if not one.sites and one.level == "error"}
    return [one for one in findings if not (one.sites and one.topic == "size" and "size" in joint)]

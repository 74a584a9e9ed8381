"""What a finished run leaves: the joint model, the ledger, what each site has, and frames of it for notebooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding
from fedgeom.errors import InputError, printable
from fedgeom.federation.ledger import Ledger, as_frame

LEAVES = "not ready: the site's data do not fit this question; its own log says why"
"""All that a coordinator hears of a site that leaves a run, whatever the reason."""

ABSENT = "it did not come, and was never asked"
"""Why a site of the terms that the engine could not reach has no part in the run."""

UNTESTED = (
    "Nobody knows how well the model does: no rows were kept aside. With holdout = 0.25 in the federation file, or "
    "fedgeom.run(…, holdout=0.25), each site keeps a quarter of its rows to test the model on."
)
"""The verdict on a model that was not tested."""
DESCRIBED = "This describes the sites' rows; there is no model to test."
ESTIMATED = "This estimates effects, each with its interval; how well it foretells other rows is not tested."
"""The verdict where no rows can be kept aside for a test."""
ASIDE_ONLY = "Nobody knows how well the model does: rows were kept aside but not tested on; the warnings say why."
"""The verdict where the test itself did not take place."""


def verdict_of(model: Any, evaluation: Any, *, aside: bool) -> str:
    """Return what to think of a model: what it concludes, and how well it does on rows that were kept aside."""
    concludes = str(getattr(model, "conclusion", ""))
    if evaluation is not None:
        return f"{concludes} {evaluation.verdict}".strip()
    if concludes:
        return concludes
    if not getattr(model, "predicts", True):
        return DESCRIBED
    if not getattr(model, "takes_holdout", True):
        return ESTIMATED
    return ASIDE_ONLY if aside else UNTESTED


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


def _as_array(labels: Sequence[Any]) -> npt.NDArray[Any]:
    """Return labels as an array; numbers, with "" where no label reached a row, stay what they are."""
    return np.array(labels, object if len({type(one) for one in labels}) > 1 else None)


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run."""

    model: Any
    """The joint model; ``model.for_site(run.local[site])`` is a site's own."""
    ledger: Ledger
    """Every message that left a site: size, and what it reveals."""
    metrics: dict[str, Any]
    """What the method reports about the run, by name."""
    sites: list[SiteData]
    """The tables it ran over, as they were given."""
    local: dict[str, dict[str, Any]]
    """What each site itself learnt, by site name; in a deployment this stays at the site."""
    lost: dict[str, str]
    """The sites that dropped out and did not come back, and why."""
    artifacts: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    """What the coordinator decoded on the way (hulls, bins), for pictures."""
    folder: Path | None = None
    """The folder of the run's record, where one was asked for."""
    warnings: list[RunWarning] = field(default_factory=list)
    """What a reader must know, such as sites that were lost: what happened, why, and what to do."""
    returned: dict[str, str] = field(default_factory=dict)
    """The sites that missed questions and came back: which, and why."""
    train: list[SiteData] = field(default_factory=list)
    """The rows of each site that were learnt from."""
    test: list[SiteData] = field(default_factory=list)
    """The rows of each site that were kept aside for testing."""
    evaluation: Any = None
    """How well the model does on rows that the sites kept aside (`holdout`), beside simple rivals; None without any."""
    again: Callable[..., Run] | None = None
    """What updates the run (`update`)."""
    rounds: list[tuple[int, str | None, str, float]] = field(default_factory=list)
    """What is known of each round (`history`)."""
    timing: Any = None
    """How long the run would have taken on the network that was given (`Network`); None without one."""

    @property
    def labels(self) -> dict[str, npt.NDArray[Any]]:
        """Each site's own labels for its rows, where the method yields labels."""
        found = {name: result["labels"] for name, result in self.local.items() if "labels" in result}
        return {name: _as_array(labels) for name, labels in found.items()}

    @property
    def confidences(self) -> dict[str, npt.NDArray[Any]]:
        """Each site's own confidence in its labels, from 0 to 1."""
        found = {name: result["confidences"] for name, result in self.local.items() if "confidences" in result}
        return {name: np.asarray(values) for name, values in found.items()}

    @property
    def verdict(self) -> str:
        """Whether the model is worth using, in a sentence or two; without rows kept aside, that nobody knows."""
        return verdict_of(self.model, self.evaluation, aside=any(map(len, self.test)))

    def update(self, added: Sequence[SiteData] = (), removed: Sequence[SiteData] = (), **options: Any) -> Run:
        """Add rows to the model, or take rows out, by a new secure run over the changed rows alone.

        For runs of ``Ridge(updatable=True)``, and for updates of such. The model is the ridge, on the features of the
        first run, of all rows as they are now.

        Parameters
        ----------
        added: a list of `SiteData`; none if not given
            Sites by their names, with the rows to add only.
        removed: a list of `SiteData`; none if not given
            Sites by their names, with the rows to take out only.
        **options: as of `fedgeom.run`
            Such as seed, policy and holdout.
        """
        if self.again is None:
            raise InputError("this run cannot be updated; run it anew")
        return self.again(self, added, removed, **options)

    def frame(self) -> Any:
        """Return the metrics as a pandas frame (round, site, metric, value), or as records without pandas.

        Metrics of the whole run have no round and no site; those of rounds are counted from 1.
        """
        rows: list[tuple[int | None, str | None, str, Any]] = []
        for metric, value in self.metrics.items():
            if isinstance(value, dict):
                rows += [(None, str(site), metric, one) for site, one in value.items()]
            elif isinstance(value, list):
                rows += [(at, None, metric, one) for at, one in enumerate(value, start=1)]
            else:
                rows.append((None, None, metric, value))
        for site, found in self.local.items():
            numbers = {key: one for key, one in found.items() if isinstance(one, int | float)}
            rows += [(None, site, key, one) for key, one in numbers.items()]
        return as_frame(["round", "site", "metric", "value"], rows)

    @property
    def history(self) -> Any:
        """What is known of each round, as a pandas frame (round, site, metric, value), or as records without pandas.

        It is what the coordinator may see: figures over all sites together (site None), from the secure sums of a run
        with ``validation_fraction``, how many sites trained, and how many bytes left each site. Joint figures are of
        the model that the round began with, on rows that no round trains on. Rounds are counted from 1.
        """
        return as_frame(["round", "site", "metric", "value"], self.rounds)

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the figures of all rounds, and return matplotlib's figure; with a path it is also written there."""
        figure = plot_rounds(self.rounds)
        if path is not None:
            figure.savefig(path, bbox_inches="tight")
        return figure

    def summary(self) -> str:
        """Return a line for people: the model, the sites, the bytes, and who was lost."""
        rows = sum(len(site) for site in self.sites)
        lost = f"; lost: {', '.join(sorted(self.lost))}" if self.lost else ""
        more = len(self.warnings) - len(self.lost)
        other = f"; {more} warning{'s' if more > 1 else ''}: see run.warnings" if more > 0 else ""
        sent = f"{len(self.ledger)} messages, {self.ledger.sent():,} bytes left them"
        useless = self.evaluation is not None and not self.evaluation.beats_majority
        floor = "; no better than the majority class: see run.verdict" if useless else ""
        return f"{self.model!r} from {len(self.sites)} sites with {rows:,} rows; {sent}{lost}{other}{floor}"

    def __repr__(self) -> str:
        return f"<Run: {self.summary()}>"

    def _repr_html_(self) -> str:
        shown = {
            "verdict": self.verdict,
            "model": getattr(self.model, "line", self.model.__repr__)(),
            "sites": ", ".join(site.name for site in self.sites[:12]) + (" …" if len(self.sites) > 12 else ""),
            "left the sites": f"{len(self.ledger)} messages, {self.ledger.sent():,} bytes",
            "lost": "; ".join(f"{name}: {why}" for name, why in self.lost.items()) or "nobody",
        }
        if self.evaluation is not None:
            shown["tested"] = f"on {self.evaluation.rows:,} rows of {self.evaluation.sites} sites"
        if self.warnings:
            shown["warnings"] = "; ".join(map(str, self.warnings[:12])) + (" …" if len(self.warnings) > 12 else "")
        rows = "".join(f"<tr><th>{key}</th><td>{escape(str(value))}</td></tr>" for key, value in shown.items())
        return f"<b>Run</b><table>{rows}</table>"


NO_ROUNDS = "this run has no rounds to plot; fedgeom report draws what it found"
WATCH = "accuracy by round: validation_fraction=0.1, and sites watch the joint model on rows set aside"


def plot_rounds(rounds: Sequence[tuple[int, str | None, str, float]]) -> Any:
    """Draw accuracy and loss of the joint model, and of sites' own models, round by round.

    Where sites set no rows aside to watch, what they sent is drawn.
    """
    from matplotlib.figure import Figure  # slow to import

    lines: dict[str, list[tuple[int, float]]] = {}
    sent: dict[int, float] = {}
    for number, site, metric, value in rounds:
        if site is None:
            lines.setdefault(metric, []).append((number, value))
        elif metric == "bytes sent":
            sent[number] = sent.get(number, 0.0) + value / 1000
    if not sent and not lines:
        raise InputError(NO_ROUNDS)
    if "joint_accuracy" not in lines:
        figure = Figure(figsize=(6, 3.2), dpi=120, layout="constrained")
        axes = figure.subplots()
        axes.plot(list(sent), list(sent.values()), marker=".")
        axes.set_ylim(bottom=0)
        axes.set_ylabel("kB")
        axes.set_title(f"what all sites sent in a round\n({WATCH})", fontsize=9)
        _plain_axes(axes)
        return figure
    figure = Figure(figsize=(9, 3.2), dpi=120, layout="constrained")
    for axes, what in zip(figure.subplots(1, 2), ("accuracy", "loss"), strict=True):
        for who, said, style in (("joint", "joint model", "-"), ("personal", "after training at a site", "--")):
            at = lines.get(f"{who}_{what}", [])
            axes.plot([one for one, _ in at], [value for _, value in at], style, marker=".", label=said)
        axes.set_title(f"{what} on rows set aside, all sites together", fontsize=10)
        axes.legend(frameon=False, fontsize=9)
        _plain_axes(axes)
    return figure


def _plain_axes(axes: Any) -> None:
    axes.set_xlabel("round")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)

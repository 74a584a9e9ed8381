"""What a finished run leaves: the joint model, the ledger, what each site has, and frames of it for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.frames import as_frame
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.run_warnings import RunWarning


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
    timing: Any = None
    """How long the run would have taken on the network that was given (`Network`); None without one."""

    @property
    def labels(self) -> dict[str, npt.NDArray[Any]]:
        """Each site's own labels for its rows, where the method yields labels."""
        return {name: np.asarray(result["labels"]) for name, result in self.local.items() if "labels" in result}

    @property
    def confidences(self) -> dict[str, npt.NDArray[Any]]:
        """Each site's own confidence in its labels, from 0 to 1."""
        found = {name: result["confidences"] for name, result in self.local.items() if "confidences" in result}
        return {name: np.asarray(values) for name, values in found.items()}

    def update(self, added: Sequence[SiteData] = (), removed: Sequence[SiteData] = (), **options: Any) -> Run:
        """Add rows to the model, or take rows out, by a new secure run over the changed rows alone.

        For runs of ``Ridge(updatable=True)``, and for updates of such. ``added`` and ``removed`` are sites by their
        names, with those rows only; ``options`` are those of `fedgeom.run`. The model is the ridge, on the features of
        the first run, of all rows as they are now.
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

    def summary(self) -> str:
        """Return a line for people: the model, the sites, the bytes, and who was lost."""
        rows = sum(len(site) for site in self.sites)
        lost = f"; lost: {', '.join(sorted(self.lost))}" if self.lost else ""
        more = len(self.warnings) - len(self.lost)
        other = f"; {more} warning{'s' if more > 1 else ''}: see run.warnings" if more > 0 else ""
        sent = f"{len(self.ledger)} messages, {self.ledger.sent():,} bytes left them"
        return f"{self.model!r} from {len(self.sites)} sites with {rows:,} rows; {sent}{lost}{other}"

    def __repr__(self) -> str:
        return f"<Run: {self.summary()}>"

    def _repr_html_(self) -> str:
        shown = {
            "model": getattr(self.model, "summary", self.model.__repr__)(),
            "sites": ", ".join(site.name for site in self.sites[:12]) + (" …" if len(self.sites) > 12 else ""),
            "left the sites": f"{len(self.ledger)} messages, {self.ledger.sent():,} bytes",
            "lost": "; ".join(f"{name}: {why}" for name, why in self.lost.items()) or "nobody",
        }
        if self.evaluation is not None:
            shown["tested"] = repr(self.evaluation).strip("<>")
        if self.warnings:
            shown["warnings"] = "; ".join(map(str, self.warnings[:12])) + (" …" if len(self.warnings) > 12 else "")
        rows = "".join(f"<tr><th>{key}</th><td>{escape(str(value))}</td></tr>" for key, value in shown.items())
        return f"<b>Run</b><table>{rows}</table>"

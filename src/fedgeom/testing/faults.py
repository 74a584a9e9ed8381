"""Checks of losses: a site lost at any step, a coordinator that dies at any step."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedgeom.data.sites import SiteData
from fedgeom.engines.run import run
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Event
from fedgeom.protocols.evaluation import SumEvaluation
from fedgeom.testing.rehearsal import CheckContext, Rehearsal


class SimulatedDeath(BaseException):
    """Stands for the death of the process that conducts a run."""


def survives_dropout(context: CheckContext) -> int:
    """A site lost at any step does no harm: the run goes on without it, or ends and says why."""
    tried = 0
    for step, site in _deaths(context, 1, context.rehearsal.steps):
        _lose(context.rehearsal, step, site.name)
        tried += 1
    return tried


def _deaths(context: CheckContext, first: int, last: int) -> Iterator[tuple[int, SiteData]]:
    """Yield steps and the site to be lost there: one in the middle, one at each step, or all at each step."""
    steps = [(first + last + 1) // 2] if context.level == "smoke" else range(first, last + 1)
    for step in steps:
        sites = context.sites
        for site in sites if context.level == "full" else [sites[step % len(sites)]]:
            yield step, site


def _lose(undisturbed: Rehearsal, step: int, site: str) -> None:
    where = f"{site} was killed at step {step}"
    held = undisturbed.with_site_lost(site, step)
    ended = ""
    try:
        held.conduct()
    except TooFewSitesError as error:
        ended = str(error)
    except Exception as error:
        raise AssertionError(f"{where}, and the run died of it: {error!r}") from error
    if ended:
        assert site in ended or "killed" in ended, f"{where}, and the run ended without saying so: {ended}"
        return
    later = [one for one in held.exchanges if one.step >= step]
    assert all(one.site != site for one in later), f"{where}, and answered later"
    told = held.conversation.lost
    assert site in told or not later, f"{where}, and the run does not say that it is lost: {told}"
    held.model.to_bytes()


def evaluation_survives_dropout(context: CheckContext) -> int:
    """A site lost while the model is evaluated leaves the model as it is, and the run has figures or a warning."""
    undisturbed = context.rehearsal_with_holdout
    first = next(one.step for one in undisturbed.exchanges if one.frame.kind == SumEvaluation.kind)
    tried = 0
    for step, site in _deaths(context, first, undisturbed.steps):
        held = undisturbed.with_site_lost(site.name, step)
        where = f"{site.name} was killed at step {step}, while the model was tested"
        try:
            held.conduct()
        except Exception as error:
            raise AssertionError(f"{where}, and the run died of it: {error!r}") from error
        same = held.model.to_bytes() == undisturbed.model.to_bytes()
        assert same, f"{where}, and the model is another"
        said = held.conversation.evaluation is not None or held.conversation.notices
        assert said, f"{where}, and the run has neither figures nor a warning"
        tried += 1
    return tried


def survives_restart(context: CheckContext) -> int:
    """A coordinator that dies after any step and is resumed yields the undisturbed model, byte for byte."""
    undisturbed = context.run
    steps = max(entry.step for entry in undisturbed.ledger)
    middle = (steps + 1) // 2
    chosen = {"smoke": [middle], "quick": sorted({1, 2, middle, steps}), "full": range(1, steps + 1)}[
        context.level
    ]
    for step in chosen:
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "run"
            _die(context, record, step)
            resumed = run(context.method, context.sites, context.seed, record=record, resume=True)
            same = resumed.model.to_bytes() == undisturbed.model.to_bytes()
            assert same, f"the coordinator died after step {step}; the resumed run yields another model"
    return len(chosen)


def _die(context: CheckContext, record: Path, step: int) -> None:
    answered = 0

    def watch(event: Event) -> None:
        nonlocal answered
        answered += event.state == "answered" and event.step == step
        if answered and event.step >= step:
            raise SimulatedDeath

    try:
        run(context.method, context.sites, context.seed, record=record, resumable=True, watch=watch)
    except SimulatedDeath:
        return
    raise AssertionError(f"the run has no step {step} at which the coordinator could die")

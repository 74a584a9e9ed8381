"""Laws of loss: a site killed at any step, a coordinator that dies at any step."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from fedgeom.data.sites import SiteData
from fedgeom.engines.run import run
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Event
from fedgeom.federation.method import Method
from fedgeom.protocols.evaluation import SumEvaluation
from fedgeom.testing.rehearsal import Rehearsal


class Died(BaseException):
    """Stands for the death of the process that conducts a run."""


def a_lost_site_is_no_disaster(method: Method, sites: Sequence[SiteData], seed: int, *, all_sites: bool) -> int:
    """Kill a site at each step: the run goes on without it, or ends with words; return how many deaths were tried."""
    steps = Rehearsal(method, sites, seed).hold().steps
    tried = 0
    for step in range(1, steps + 1):
        for site in sites if all_sites else [sites[step % len(sites)]]:
            _kill(method, sites, seed, step, site.name)
            tried += 1
    return tried


def _killed(method: Method, sites: Sequence[SiteData], seed: int, step: int, site: str) -> Rehearsal:
    """Return a run, not yet held, in which a site answers nothing from a step on."""

    def interfere(name: str, request: bytes) -> str | None:
        return "killed" if name == site and held.steps >= step else None

    held = Rehearsal(method, sites, seed, interfere=interfere)
    return held


def _kill(method: Method, sites: Sequence[SiteData], seed: int, step: int, site: str) -> None:
    where = f"{site} was killed at step {step}"
    held, ended = _killed(method, sites, seed, step, site), ""
    try:
        held.hold()
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


def a_test_costs_no_model(method: Method, sites: Sequence[SiteData], seed: int, *, all_sites: bool) -> int:
    """Kill a site when the model is tested, and at each step from there on: the model is the undisturbed one.

    Return how many deaths were tried.
    """
    undisturbed = Rehearsal(method, sites, seed).hold()
    first = next(one.step for one in undisturbed.exchanges if one.frame.kind == SumEvaluation.kind)
    tried = 0
    for step in range(first, undisturbed.steps + 1):
        for site in sites if all_sites else [sites[step % len(sites)]]:
            held = _killed(method, sites, seed, step, site.name)
            where = f"{site.name} was killed at step {step}, while the model was tested"
            try:
                held.hold()
            except Exception as error:
                raise AssertionError(f"{where}, and the run died of it: {error!r}") from error
            same = held.model.to_bytes() == undisturbed.model.to_bytes()
            assert same, f"{where}, and the model is another"
            said = held.conversation.evaluation is not None or held.conversation.notices
            assert said, f"{where}, and the run has neither figures nor a warning"
            tried += 1
    return tried


def a_dead_coordinator_goes_on(method: Method, sites: Sequence[SiteData], seed: int, *, every_step: bool) -> int:
    """Let the coordinator die after each step and resume: the model is the undisturbed one, byte for byte.

    Return how many deaths were tried.
    """
    undisturbed = run(method, sites, seed)
    steps = max(entry.step for entry in undisturbed.ledger)
    chosen = range(1, steps + 1) if every_step else sorted({1, 2, (steps + 1) // 2, steps})
    for step in chosen:
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder) / "run"
            _die(method, sites, seed, record, step)
            resumed = run(method, sites, seed, record=record, resume=True)
            same = resumed.model.to_bytes() == undisturbed.model.to_bytes()
            assert same, f"the coordinator died after step {step}; the resumed run yields another model"
    return len(list(chosen))


def _die(method: Method, sites: Sequence[SiteData], seed: int, record: Path, step: int) -> None:
    answered = 0

    def watch(event: Event) -> None:
        nonlocal answered
        answered += event.state == "answered" and event.step == step
        if answered and event.step >= step:
            raise Died

    try:
        run(method, sites, seed, record=record, resumable=True, watch=watch)
    except Died:
        return
    raise AssertionError(f"the run has no step {step} at which the coordinator could die")

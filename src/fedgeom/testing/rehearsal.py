"""Honest runs, written down question by question, to be played again with changes; and what checks share of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal
from unittest import SkipTest

import numpy as np

from fedgeom.crypto.keys import Identity
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine, Interfere
from fedgeom.engines.run import run
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Coordinator, Event, Lost
from fedgeom.federation.messages import Buffer, Frame, Question, Refusal, decode, pack_body, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.results import Run
from fedgeom.federation.runner import SiteRunner
from fedgeom.federation.session import Session
from fedgeom.protocols.evaluation import SumEvaluation


def example_sites(sites: int = 4, rows: int = 24, seed: int = 0) -> list[SiteData]:
    """Return sites with two classes of points inside the unit disc; every site has both."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(sites):
        y = np.arange(rows) % 2
        centres = np.array([[-0.35, 0.05], [0.35, -0.05]])
        X = centres[y] + 0.12 * rng.standard_normal((rows, 2))
        found.append(SiteData(f"site-{at + 1}", X, np.array(["left", "right"])[y]))
    return found


def twins(sites: list[SiteData], seed: int = 1) -> dict[str, list[SiteData]]:
    """Return the same sites with other data, by what is other: names, columns and label names stay as they are."""
    rng = np.random.default_rng(seed)
    rows = [other_rows(site, rng) for site in sites]
    return {
        "rows": rows,
        "labels": [other_labels(site, rng) for site in sites],
        "rows and labels": [other_labels(site, rng) for site in rows],
        "numbers of rows": [site.take(np.arange(len(site) - max(1, len(site) // 4))) for site in sites],
        "sizes of classes": [other_sizes(site) for site in sites],
        "extreme rows": [with_extreme_row(site) for site in sites],
    }


def other_rows(site: SiteData, rng: np.random.Generator) -> SiteData:
    """Move each row a little, no farther out than it was."""
    X = site.X + 0.05 * site.X.std(axis=0) * rng.standard_normal(site.X.shape)
    before = np.linalg.norm(site.X, axis=1)
    after = np.linalg.norm(X, axis=1)
    return replace(site, table=X * (np.minimum(before, after) / np.maximum(after, 1e-300))[:, None])


def other_labels(site: SiteData, rng: np.random.Generator) -> SiteData:
    """Deal the labels to other rows."""
    return replace(site, y=site.y[rng.permutation(len(site))])


def other_sizes(site: SiteData) -> SiteData:
    """Give every third row of the last class to the first one; a site of one class stays as it is."""
    y = site.y.copy()
    classes = site.classes
    y[np.flatnonzero(site.y == classes[-1])[::3]] = classes[0]
    return replace(site, y=y)


def with_extreme_row(site: SiteData) -> SiteData:
    """Move one row far out: to the rim, where all rows lie inside the unit disc."""
    X = site.X.copy()
    length = float(np.linalg.norm(site.X, axis=1).max())
    at = int(np.linalg.norm(X, axis=1).argmax())
    X[at] *= (0.999 if length < 1 else 1000 * length) / max(length, 1e-300)
    return replace(site, table=X)


Level = Literal["smoke", "quick", "full"]
"""How many cases each check tries."""

HOLDOUT = 0.25
"""The share of rows held out where a method's evaluation is checked."""


@dataclass(frozen=True)
class RecordedExchange:
    """One question to one site: what was asked and answered, and the site's memory before and after."""

    step: int
    site: str
    request: bytes
    reply: bytes
    before: bytes | None
    after: bytes

    @cached_property
    def frame(self) -> Frame:
        """The question's frame."""
        return unpack(self.request)


@dataclass
class Rehearsal:
    """A run over sites in this process, with all that was said."""

    method: Method
    sites: Sequence[SiteData]
    seed: int = 0
    policy: Policy = field(default_factory=Policy)
    interfere: Interfere | None = None
    exchanges: list[RecordedExchange] = field(default_factory=list)
    engine: EmbeddedEngine = field(init=False)
    conversation: Coordinator = field(init=False)
    model: Any = None
    run: bytes = field(default_factory=lambda: os.urandom(32))
    identities: Mapping[str, Identity] | None = None
    known: Mapping[tuple[int, str], RecordedExchange] = field(default_factory=dict)
    """What sites answered in an earlier run of the same number, by step and site: they are not asked again."""

    def __post_init__(self) -> None:
        self.engine = EmbeddedEngine(
            self.method, self.sites, policy=self.policy, interfere=self.interfere, identities=self.identities
        )
        self._step = 0

    def conduct(self) -> Rehearsal:
        """Hold the whole conversation."""
        session = Session(self.method, self.run, self.seed, self.engine.roster)
        self.model, self.conversation = session.conduct(self)
        return self

    def with_site_lost(self, site: str, step: int) -> Rehearsal:
        """Return this run, not yet held, with a site that answers nothing from ``step`` on.

        The steps before are the same in both runs, so their answers are taken from this one, as a resumed run takes
        them from its transcript.
        """

        def interfere(name: str, request: bytes) -> str | None:
            return "killed" if name == site and other.steps >= step else None

        other = Rehearsal(
            self.method,
            self.sites,
            self.seed,
            self.policy,
            interfere,
            run=self.run,
            identities={name: runner.identity.key for name, runner in self.engine.runners.items()},
            known={(one.step, one.site): one for one in self.exchanges if one.step < step},
        )
        return other

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self.engine.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Carry questions as the embedded engine does, and write all down."""
        self._step += 1
        before = {name: self.engine.memories.get(name) for name in requests}
        for name, reply in self._answers(requests):
            if not isinstance(reply, Lost):
                after = self.engine.memories[name]
                self.exchanges.append(
                    RecordedExchange(self._step, name, requests[name], bytes(reply), before[name], after)
                )
            yield name, reply

    def _answers(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Buffer | Lost]]:
        """Yield the answers that are known, then those of the sites."""
        new = {}
        for name, request in requests.items():
            one = self.known.get((self._step, name))
            if one is None:
                new[name] = request
                continue
            assert one.request == request, (
                f"the coordinator puts another {one.frame.kind!r} in step {self._step} than before, with the same "
                "seed and answers; so a run cannot be resumed"
            )
            self.engine.memories[name] = one.after
            yield name, one.reply
        yield from self.engine.deliver(new)

    @property
    def steps(self) -> int:
        """How many questions there were."""
        return self._step

    def runner(self, site: str) -> SiteRunner:
        """Return what answered for a site in this run."""
        return self.engine.runners[site]

    def new_runner(self, site: str, *, strict: bool = False) -> SiteRunner:
        """Return what answers for a site like a new process, which has no intermediate results of earlier answers.

        A strict one raises what nobody expected, where the site would leave the run.
        """
        own = self.engine.runners[site]
        kind = _StrictRunner if strict else SiteRunner
        return kind(own.site, own.method, own.identity, own._data)

    def question(self, exchange: RecordedExchange) -> Question:
        """Return a question as the site read it."""
        frame = exchange.frame
        return decode(frame.body, self.method.site.understands()[frame.kind])

    def request(self, question: Question, body: bytes) -> bytes:
        """Put a question's bytes into the run's frame."""
        return self.request_of(question.kind, body)

    def request_of(self, kind: str, body: bytes) -> bytes:
        """Put bytes that pass for a question of some kind into the run's frame."""
        return pack_body(self.run, self.method.name, kind, body)


class _StrictRunner(SiteRunner):
    def fail(self, run: bytes, error: Exception) -> tuple[bytes, bytes]:
        raise error


def refused(reply: bytes) -> str:
    """Return the reason of a refusal; nothing for an answer."""
    frame = unpack(reply)
    return decode(frame.body, Refusal).reason if frame.kind == Refusal.kind else ""


class Cases(int):
    """How many cases a check has tried, and in words what of them was left out or told nothing, and why."""

    reason: str

    def __new__(cls, count: int, reason: str = "") -> Cases:
        """Count cases."""
        found = super().__new__(cls, count)
        found.reason = reason
        return found


MethodOrMaker = Method | type[Method] | Callable[[], Method]
SitesOrMaker = Sequence[SiteData] | Callable[[], Sequence[SiteData]] | None


def make_method(given: MethodOrMaker) -> Method:
    """Return the method that is to be checked."""
    made = given() if callable(given) else given
    assert isinstance(made, Method), f"{given!r} is no fedgeom.Method"
    return made


def make_sites(given: SitesOrMaker) -> list[SiteData]:
    """Return the sites on which a method is tried; the example's if none are given."""
    found = example_sites() if given is None else given
    made = list(found() if callable(found) else found)
    assert len(made) >= 4, f"{len(made)} sites were given; at least 4 are wanted, so that one may be lost"
    return made


@dataclass(eq=False)
class CheckContext:
    """What the checks of one method share: the method, its sites, and undisturbed runs, made when first used.

    Parameters
    ----------
    given : Method, class of methods, or function
        The method, its class for the default settings, or a function that makes it when it is first used.
    tables : sequence of SiteData, function, or None
        Four sites or more, or a function that makes them; None: `example_sites`.
    level, seed, tolerance
        As for `check_method`.
    """

    given: MethodOrMaker
    tables: SitesOrMaker = None
    level: Level = "quick"
    seed: int = 0
    tolerance: float = 1e-6

    @cached_property
    def method(self) -> Method:
        """The method with its settings."""
        return make_method(self.given)

    @cached_property
    def method_with_holdout(self) -> Method:
        """The method, with rows held out on which its model is evaluated."""
        tested = self.method.predicts and self.method.takes_holdout
        return replace(self.method, holdout=HOLDOUT) if tested else self.method

    @cached_property
    def sites(self) -> list[SiteData]:
        """The sites on which the method is tried."""
        return make_sites(self.tables)

    @property
    def run(self) -> Run:
        """An undisturbed run."""
        return _undisturbed_run(self, holdout=False)

    @property
    def run_with_holdout(self) -> Run:
        """An undisturbed run with an evaluation."""
        return _undisturbed_run(self, holdout=True)

    @property
    def rehearsal(self) -> Rehearsal:
        """An undisturbed run, written down."""
        return _undisturbed_rehearsal(self, holdout=False)

    @property
    def rehearsal_with_holdout(self) -> Rehearsal:
        """An undisturbed run with an evaluation, written down."""
        return _undisturbed_rehearsal(self, holdout=True)


def need_predictions(context: CheckContext) -> None:
    """Skip a check of what a model says of rows, where the method yields none that does."""
    if not (context.method.predicts and context.method.takes_holdout):
        raise SkipTest(f"{context.method.name!r} yields nothing that predicts classes")


# Of the last context only, with and without holdout: a session of pytest has a context for every method it checks,
# and is not to keep all their runs.
@lru_cache(maxsize=2)
def _undisturbed_run(context: CheckContext, *, holdout: bool) -> Run:
    return run(context.method_with_holdout if holdout else context.method, context.sites, context.seed)


@lru_cache(maxsize=2)
def _undisturbed_rehearsal(context: CheckContext, *, holdout: bool) -> Rehearsal:
    method = context.method_with_holdout if holdout else context.method
    return Rehearsal(method, context.sites, context.seed).conduct()


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
    need_predictions(context)
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

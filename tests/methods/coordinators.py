"""Coordinators for tests: one that is honest, one that changes questions on their way, one that loses sites."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import FedgeomError
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.messages import Question, Refusal, decode, pack, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.protocols.secure_sum.messages import SumQuestion, hash_question

RUN = bytes(range(32))


class Held(NamedTuple):
    """A conversation that was held, with the engine that has the sites' memories."""

    model: Any
    sites: Coordinator
    engine: EmbeddedEngine

    def site(self, name: str) -> Any:
        """Return a site as it was after its last answer."""
        site: Site[Any] = self.engine.runners[name].restore(RUN, self.engine.memories.get(name))
        return site

    def local(self) -> dict[str, dict[str, Any]]:
        """Return what each site itself learnt."""
        return {name: result.found for name, result in self.engine.results(RUN, models=False).items()}


def hold(method: Method, sites: Sequence[SiteData], *, seed: int = 0, policy: Policy | None = None) -> Held:
    """Hold an honest conversation."""
    engine = EmbeddedEngine(method, sites, policy=policy)
    talk = Coordinator(engine, run=RUN, method=method.name, seed=seed, roster=engine.roster)
    return Held(method.conduct(talk), talk, engine)


def fresh(method: Method, data: SiteData) -> Any:
    """Return a site that has been asked nothing yet."""
    return EmbeddedEngine(method, [data]).runners[data.name].restore(RUN, None)


class Heard(NamedTuple):
    """One question to one site, its answer, and what the site remembered then."""

    name: str
    question: Any
    answer: Any
    request: bytes
    reply: bytes
    memory: bytes


def overhear(
    method: Method, sites: Sequence[SiteData], *, seed: int = 0, policy: Policy | None = None
) -> tuple[list[Heard], EmbeddedEngine]:
    """Hold an honest conversation; return all that was said, as the coordinator sees it."""
    engine, heard = EmbeddedEngine(method, sites, policy=policy), list[Heard]()
    deliver, known = engine.deliver, method.site.understands()

    def listening(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in deliver(requests):
            assert isinstance(reply, bytes)
            asked, said = unpack(requests[name]), unpack(reply)
            kind = known[asked.kind]
            answer = decode(said.body, Refusal if said.kind == Refusal.kind else kind.answer)
            heard.append(
                Heard(name, decode(asked.body, kind), answer, requests[name], reply, engine.memories[name])
            )
            yield name, reply

    engine.deliver = listening  # type: ignore[method-assign]
    method.conduct(Coordinator(engine, run=RUN, method=method.name, seed=seed, roster=engine.roster))
    return heard, engine


class Lying:
    """An engine under which the coordinator's questions of one kind are changed on their way.

    ``change`` gets a question, and returns another or None to leave it as it is. ``to`` names the only site to lie to.
    """

    def __init__(
        self, engine: EmbeddedEngine, kind: type[Question], change: Callable[[Any], Any], to: str | None = None
    ):
        self.engine, self.kind, self.change, self.to = engine, kind, change, to
        self.answered: list[tuple[str, Any]] = []
        """What the sites said to a changed question: a refusal's reason, or None for an answer."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that can be asked."""
        return self.engine.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        """Change questions, deliver them, and listen to what is said to them."""
        sent, lied = {}, set()
        for name, request in requests.items():
            frame = unpack(request)
            sent[name] = request
            if frame.kind == self.kind.kind and self.to in (None, name):
                changed = self.change(decode(frame.body, self.kind))
                if changed is not None:
                    sent[name] = pack(frame.run, frame.method, changed)
                    lied.add(name)
        for name, reply in self.engine.deliver(sent):
            if name in lied and isinstance(reply, bytes):
                frame = unpack(reply)
                refused = frame.kind == Refusal.kind
                self.answered.append((name, decode(frame.body, Refusal).reason if refused else None))
            yield name, reply


def lie(
    method: Method,
    sites: Sequence[SiteData],
    kind: type[Question],
    change: Callable[[Any], Any],
    *,
    to: str | None = None,
    policy: Policy | None = None,
) -> list[tuple[str, Any]]:
    """Hold a conversation with a lying coordinator; return what the sites said to each changed question."""
    engine = Lying(EmbeddedEngine(method, sites, policy=policy), kind, change, to)
    talk = Coordinator(engine, run=RUN, method=method.name, roster=engine.engine.roster)
    with contextlib.suppress(FedgeomError):
        method.conduct(talk)
    assert engine.answered, f"no {kind.__name__} was asked, or none was changed"
    return engine.answered


def refusals(*args: Any, **options: Any) -> set[str]:
    """Lie as in `lie`; return the reasons of all refusals, and fail if anybody answered."""
    said = lie(*args, **options)
    assert all(reason is not None for _, reason in said), f"answered by {[n for n, r in said if r is None]}"
    return {reason for _, reason in said}


def stamped(question: SumQuestion, **changes: Any) -> Any:
    """Change a question for a sum and make its ticket out for it, as a coordinator that lies to all would."""
    changed = msgspec.structs.replace(question, **changes)
    ticket = msgspec.structs.replace(changed.ticket, question_hash=hash_question(changed))
    return msgspec.structs.replace(changed, ticket=ticket)


def kill(victim: str, step: str) -> Callable[[str, bytes], str | None]:
    """Return an interference that loses the victim from this step on; "sum.confirm 1" is the second of its kind."""
    seen: dict[str, int] = {}
    dead = False

    def interfere(name: str, request: bytes) -> str | None:
        nonlocal dead
        if name != victim:
            return None
        kind = unpack(request).kind
        nth = seen.get(kind, 0)
        seen[kind] = nth + 1
        if step in (kind, f"{kind} {nth}"):
            dead = True
        return "the process was killed" if dead else None

    return interfere

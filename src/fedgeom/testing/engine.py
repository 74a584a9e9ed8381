"""What any engine must keep, ours or a stranger's: ``check_engine(open_engine)``.

An engine carries bytes and knows nothing else. So the checks need no method and no data: sites answer by a function.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from fedgeom.errors import DecodeError, InputError
from fedgeom.federation.coordinator import Engine, Lost

SiteAnswer = Callable[[str, bytes], bytes]
"""From a site's name and a question to its answer; runs where the engine's sites do."""
OpenEngine = Callable[[Sequence[str], SiteAnswer], AbstractContextManager[Engine]]
"""Makes an engine for sites with these names, which answer by this function; leaving the context ends them."""

NAMES = ("anna", "bert", "carl")
LARGE = 3 * 2**20 + 17
"""Longer than what any engine carries in one piece, and no multiple of it."""
SECRET = "patient 4711"
"""What stands in the text of an error, and may not leave a site."""
SLOW_SECONDS = 2.0


class PaperSites:
    """Sites that do what a question says, and write down what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.at_once = 0
        """How many questions a site has worked on at the same time, at most."""
        self._working: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str, question: bytes) -> bytes:
        """Answer for a site."""
        with self._lock:
            self.asked.append((name, question))
            self._working[name] = self._working.get(name, 0) + 1
            self.at_once = max(self.at_once, self._working[name])
        try:
            return self._answer(name, question)
        finally:
            with self._lock:
                self._working[name] -= 1

    def _answer(self, name: str, question: bytes) -> bytes:
        word, _, rest = question.partition(b":")
        if rest == name.encode():
            if word == b"refuse":
                raise DecodeError("cannot be read")
            if word == b"fail":
                raise ValueError(SECRET)
            if word == b"sleep":
                time.sleep(SLOW_SECONDS)
            if word == b"nothing":
                return b""
        if word == b"large":
            return name.encode()[:1] * LARGE
        return name.encode() + b" heard " + question


def check_engine(
    open_engine: OpenEngine,
    *,
    skip: Mapping[str, str] | None = None,
    callback: Callable[[str, int], None] = lambda name, tried: None,
) -> dict[str, int]:
    """Hold an engine to its contract; return how many answers each check has looked at.

    Raises `AssertionError`, in words, at the first law that the engine breaks.

    Parameters
    ----------
    open_engine : function of names and a function that answers
        Returns a context manager that yields the engine; `OpenEngine` says more.
    skip : mapping from names of checks to reasons, default=None
        Checks that are not run.
    callback : function of a name and a number, default does nothing
        Called after each check, with how many answers it has looked at.

    Returns
    -------
    dict
        From the names of the checks that were run to how many answers each has looked at.
    """
    skipped = dict(skip or {})
    unknown = set(skipped) - {check.__name__ for check in CHECKS}
    if unknown:
        raise InputError(f"skip names {', '.join(sorted(unknown))}; there are no such checks")
    done: dict[str, int] = {}
    sites = PaperSites()
    with open_engine(NAMES, sites) as engine:
        for check in CHECKS:
            name = check.__name__
            if name in skipped:
                continue
            sites.asked.clear()
            try:
                done[name] = check(engine, sites)
            except Exception as error:
                error.add_note(f"{name}: {(inspect.getdoc(check) or '').partition(chr(10))[0]}")
                raise
            callback(name, done[name])
    return done


def _ask(engine: Engine, questions: Mapping[str, bytes]) -> dict[str, bytes | Lost]:
    """Put questions and return the answers; each site that was asked must have exactly one."""
    found: dict[str, bytes | Lost] = {}
    for name, outcome in engine.deliver(questions):
        assert name in questions, f"{name!r} answered, who was not asked"
        assert name not in found, f"{name!r} answered twice"
        found[name] = outcome if isinstance(outcome, Lost) else bytes(outcome)
    assert set(found) == set(questions), f"no outcome for {', '.join(sorted(set(questions) - set(found)))}"
    return found


def names_are_those_of_the_sites(engine: Engine, sites: PaperSites) -> int:
    """The engine names all sites, in alphabetical order, and asks nobody who was not to be asked."""
    assert engine.names == tuple(sorted(NAMES)), f"names are {engine.names}; wanted {tuple(sorted(NAMES))}"
    assert _ask(engine, {}) == {}
    _ask(engine, {"bert": b"hello"})
    assert sites.asked == [("bert", b"hello")], f"asked were {sites.asked}; wanted bert alone, once"
    return len(sites.asked)


def bytes_arrive_as_they_were_sent(engine: Engine, sites: PaperSites) -> int:
    """Each site gets its own question and each answer comes back as that site's, byte for byte, of any length."""
    questions = [b"", bytes(range(256)), b"\n" * 70_000, b"x" * LARGE]
    for k, question in enumerate(questions):
        own = {name: question + name.encode() if k % 2 else question for name in NAMES}
        for name, answer in _ask(engine, own).items():
            assert answer == name.encode() + b" heard " + own[name], f"{name!r} did not hear what it was asked"
    for name, answer in _ask(engine, dict.fromkeys(NAMES, b"large")).items():
        assert answer == name.encode()[:1] * LARGE, f"a long answer of {name!r} did not arrive as it was"
    empty = _ask(engine, {"anna": b"nothing:anna"})["anna"]
    assert empty == b"", f"an empty answer arrived as {empty!r}"
    return len(sites.asked)


def a_question_that_is_put_again_is_answered_again(engine: Engine, sites: PaperSites) -> int:
    """Nothing is answered from a memory of the engine's: who is asked the same twice is asked twice."""
    for _ in range(2):
        _ask(engine, dict.fromkeys(NAMES, b"again"))
    for name in NAMES:
        times = sites.asked.count((name, b"again"))
        assert times == 2, f"{name!r} was asked {times} times; wanted 2"
    return len(sites.asked)


def who_refuses_is_lost_alone(engine: Engine, sites: PaperSites) -> int:
    """A site that cannot read a question is lost with a reason, the others answer, and so does it the next time."""
    for question in (b"refuse:bert", b"hello"):
        found = _ask(engine, dict.fromkeys(NAMES, question))
        lost = {name for name, outcome in found.items() if isinstance(outcome, Lost)}
        wanted = {"bert"} if question != b"hello" else set()
        assert lost == wanted, f"lost were {sorted(lost)}; wanted {sorted(wanted)}"
        for outcome in found.values():
            assert not isinstance(outcome, Lost) or outcome.reason, "a site was lost without a reason"
    return len(sites.asked)


def errors_keep_their_words(engine: Engine, sites: PaperSites) -> int:
    """A site that fails is lost, and the text of its error, which may quote data, stays there."""
    found = _ask(engine, dict.fromkeys(NAMES, b"fail:carl"))
    outcome = found["carl"]
    assert isinstance(outcome, Lost), "a site that failed has answered"
    assert SECRET not in outcome.reason, "the text of a site's error has left it"
    assert not any(isinstance(found[name], Lost) for name in ("anna", "bert")), "another site was lost with it"
    return len(sites.asked)


def a_slow_site_keeps_nobody_waiting(engine: Engine, sites: PaperSites) -> int:
    """Answers are handed on as they come."""
    order = [name for name, _ in engine.deliver(dict.fromkeys(NAMES, b"sleep:anna"))]
    assert order[-1] == "anna", f"the answers came in the order {order}; anna was slow"
    return len(sites.asked)


def what_nobody_waits_for_disturbs_nobody(engine: Engine, sites: PaperSites) -> int:
    """Whoever stops listening in the middle gets no old answers later, and no site works on two questions at once."""
    sites.at_once = 0
    with closing(_as_generator(engine, dict.fromkeys(NAMES, b"sleep:anna"))) as answers:
        next(answers)
    for k in range(3):
        question = b"later %d" % k
        for name, answer in _ask(engine, dict.fromkeys(NAMES, question)).items():
            assert answer == name.encode() + b" heard " + question, f"{name!r} answered something else: {answer!r}"
    assert sites.at_once == 1, "a site worked on two questions at once"
    return len(sites.asked)


def _as_generator(engine: Engine, questions: Mapping[str, bytes]) -> Any:
    """Return the answers as something that can be closed."""
    yield from engine.deliver(questions)


CHECKS: tuple[Callable[[Engine, PaperSites], int], ...] = (
    names_are_those_of_the_sites,
    bytes_arrive_as_they_were_sent,
    a_question_that_is_put_again_is_answered_again,
    who_refuses_is_lost_alone,
    errors_keep_their_words,
    a_slow_site_keeps_nobody_waiting,
    what_nobody_waits_for_disturbs_nobody,
)
"""All checks. A new one is a function in this list: its name is the check's, its docstring's first line the law."""

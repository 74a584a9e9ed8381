"""Resuming: what was answered is not asked again, what was lost stays lost, and the model is the same."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.method import Method
from fedgeom.federation.session import Transcript
from tests.federation.fuzzing import RUN, small_sites
from tests.protocols.summing import killer

Outcomes = dict[str, bytes | Lost]
STEPS = [
    ("join.hello", 1),
    ("join.meet", 1),
    ("join.share", 1),
    ("hulls.extent", 1),
    ("sum.confirm", 1),
    ("sum.unmask", 1),
    ("hulls.encode", 1),
    ("sum.confirm", 2),
    ("sum.unmask", 2),
    ("hulls.take-model", 1),
]
"""The questions of a run of hulls, and which of their kind they are."""


class Scripted:
    """An engine that gives each site's answers in turn, and counts how often it was asked."""

    def __init__(self, **answers: list[bytes | Lost]):
        self.answers = answers
        self.asked: list[dict[str, bytes]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.answers)

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        self.asked.append(dict(requests))
        for name in requests:
            yield name, self.answers[name].pop(0)


def ask(transcript: Transcript, *names: str, what: bytes = b"?") -> Outcomes:
    return dict(transcript.deliver(dict.fromkeys(names, what)))


def test_answers_come_from_the_transcript_first(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    first = Scripted(a=[b"a1", b"a2"], b=[b"b1", b"b2"])
    t = Transcript(first, path)
    assert ask(t, "a", "b") == {"a": b"a1", "b": b"b1"}
    again = Scripted(a=[b"new"], b=[b"new"])
    t = Transcript(again, path)
    assert ask(t, "a", "b") == {"a": b"a1", "b": b"b1"}
    assert again.asked == []
    assert ask(t, "a", "b", what=b"next") == {"a": b"new", "b": b"new"}
    assert again.asked == [{"a": b"next", "b": b"next"}]


def test_in_the_middle_of_a_step_only_the_rest_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    half = Transcript(Scripted(a=[b"a1"], b=[b"b1"]), path).deliver({"a": b"?", "b": b"?"})
    assert next(half) == ("a", b"a1")  # and then the coordinator dies
    engine = Scripted(a=[b"no"], b=[b"b1"])
    assert ask(Transcript(engine, path), "a", "b") == {"a": b"a1", "b": b"b1"}
    assert engine.asked == [{"b": b"?"}]


def test_who_was_lost_stays_lost_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    ask(Transcript(Scripted(a=[Lost("no power")], b=[b"b1"]), path), "a", "b")
    outcome = ask(Transcript(Scripted(a=[b"late"], b=[]), path), "a", "b")
    assert outcome == {"a": Lost("no power"), "b": b"b1"}


def test_once_the_first_question_is_over_the_sites_are_those_that_were_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    t = Transcript(Scripted(a=[b"1"], b=[b"1"]), path)
    assert t.names == ("a", "b")
    ask(t, "a", "b")
    later = Transcript(Scripted(b=[], c=[]), path)
    assert later.names == ("a", "b")
    with pytest.raises(InputError, match="'c' was not asked then"):
        ask(later, "c")


@pytest.mark.parametrize("cut", range(1, 30))
def test_an_entry_that_was_being_written_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.bin"
    ask(Transcript(Scripted(a=[b"a1"]), path), "a")
    whole = path.stat().st_size
    ask(Transcript(Scripted(a=[]), path), "a")
    assert path.stat().st_size == whole  # replaying writes nothing
    with path.open("r+b") as file:
        file.truncate(whole - cut)
    outcome = ask(Transcript(Scripted(a=[b"again"]), path), "a")
    assert outcome in ({"a": b"a1"}, {"a": b"again"})
    assert ask(Transcript(Scripted(a=[]), path), "a") == outcome


def test_other_questions_than_then_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    ask(Transcript(Scripted(a=[b"1"]), path), "a")
    with pytest.raises(InputError, match="run with other settings"):
        ask(Transcript(Scripted(a=[]), path), "a", what=b"changed")


def test_damage_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes((4).to_bytes(8, "big") + b"\xc1\xc1\xc1\xc1")
    with pytest.raises(InputError, match="damaged at byte 0"):
        Transcript(Scripted(a=[]), path)


def test_reopening_goes_back_to_the_last_loss_and_keeps_the_others_answers(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    t = Transcript(Scripted(a=[b"1", b"2", b"3"], b=[Lost("x"), b"2", b"3"], c=[b"1", Lost("y"), b"3"]), path)
    for what in (b"one", b"two", b"three"):
        ask(t, "a", "b", "c", what=what)
    t.reopen_last_step()
    engine = Scripted(a=[b"new"], b=[b"new"], c=[b"back", b"new"])
    t = Transcript(engine, path)
    assert ask(t, "a", "b", "c", what=b"one")["b"] == Lost("x")
    assert ask(t, "a", "b", "c", what=b"two") == {"a": b"2", "b": b"2", "c": b"back"}
    assert ask(t, "a", "b", "c", what=b"another three") == {"a": b"new", "b": b"new", "c": b"new"}
    assert engine.asked == [{"c": b"two"}, dict.fromkeys("abc", b"another three")]


def test_who_was_left_out_for_its_answer_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    t = Transcript(Scripted(a=[b"1"], b=[b"a bad key"], c=[b"1"]), path)
    ask(t, "a", "b", "c", what=b"one")
    t.reopen_last_step({"b"})
    engine = Scripted(a=[], b=[b"a good key"], c=[])
    assert ask(Transcript(engine, path), "a", "b", "c", what=b"one") == {"a": b"1", "b": b"a good key", "c": b"1"}
    assert engine.asked == [{"b": b"one"}]


def test_an_earlier_useless_answer_stays_when_others_were_lost_later(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    t = Transcript(Scripted(a=[b"1", b"2"], b=[b"a bad key"], c=[b"1", Lost("x")]), path)
    ask(t, "a", "b", "c", what=b"one")
    ask(t, "a", "c", what=b"two")
    t.reopen_last_step({"b", "c"})
    engine = Scripted(a=[], b=[], c=[b"back"])
    t = Transcript(engine, path)
    assert ask(t, "a", "b", "c", what=b"one")["b"] == b"a bad key"
    assert ask(t, "a", "c", what=b"two") == {"a": b"2", "c": b"back"}


def test_with_nobody_lost_there_is_nothing_to_reopen(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    t = Transcript(Scripted(a=[b"1"]), path)
    ask(t, "a")
    before = path.read_bytes()
    t.reopen_last_step()
    assert path.read_bytes() == before


# --- whole runs ---


def conduct(method: Method, engine: EmbeddedEngine, path: Path) -> bytes:
    transcript = Transcript(engine, path)
    sites = Coordinator(transcript, run=RUN, method=method.name, roster=engine.roster)
    try:
        return bytes(method.conduct(sites).to_bytes())
    except TooFewSitesError:
        transcript.reopen_last_step()
        raise


def lines_of(path: Path) -> list[int]:
    """Return where each entry of a transcript ends."""
    data, ends, at = path.read_bytes(), [0], 0
    while at < len(data):
        at += 8 + int.from_bytes(data[at : at + 8], "big")
        ends.append(at)
    return ends


@pytest.mark.parametrize("method", [fedgeom.Hulls(epsilon=0.1), fedgeom.Moments()], ids=["hulls", "moments"])
def test_a_coordinator_that_died_anywhere_ends_with_the_same_model(tmp_path: Path, method: Method) -> None:
    """The sites are ahead of what the coordinator wrote down: they are asked again what they answered before."""
    engine, path = EmbeddedEngine(method, small_sites()), tmp_path / "t.bin"
    whole = conduct(method, engine, path)
    written = path.read_bytes()
    for end in lines_of(path):
        path.write_bytes(written[:end])
        assert conduct(method, engine, path) == whole
        assert path.read_bytes() == written  # the very same answers came


def three_and(n: int) -> list[SiteData]:
    data = small_sites()
    return [*data, *(SiteData(f"more-{k}", data[k % 3].X + 0.01, data[k % 3].y) for k in range(n))]


@pytest.mark.parametrize("victim", range(3))
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_run_with_too_few_sites_is_finished_when_the_lost_one_is_back(
    tmp_path: Path, step: tuple[str, int], victim: int
) -> None:
    """Three sites, whose policy asks for three: one is killed at each step and comes back later."""
    method, data = fedgeom.Hulls(epsilon=0.1), small_sites()
    engine = EmbeddedEngine(method, data, interfere=killer({data[victim].name: step}))
    path = tmp_path / "t.bin"
    with contextlib.suppress(TooFewSitesError):
        conduct(method, engine, path)
    engine._interfere = None
    assert conduct(method, engine, path) == fedgeom.run(method, small_sites()).model.to_bytes()


def test_two_of_five_lost_at_the_same_step_come_back_and_the_run_goes_on(tmp_path: Path) -> None:
    method, data = fedgeom.Hulls(epsilon=0.1), three_and(2)
    for step in STEPS:
        engine = EmbeddedEngine(method, data, interfere=killer({site.name: step for site in data[:2]}))
        path = tmp_path / f"{step[0]} {step[1]}.bin"
        with contextlib.suppress(TooFewSitesError):
            conduct(method, engine, path)
        engine._interfere = None
        for _ in range(3):  # each time back to the last loss
            with contextlib.suppress(TooFewSitesError):
                model = conduct(method, engine, path)
                break
        else:
            pytest.fail(f"lost at {step}, the run could not be resumed")
        assert model

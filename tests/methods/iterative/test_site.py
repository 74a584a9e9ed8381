"""What a site refuses: it keeps to the terms on which it joined, whatever a coordinator asks."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import DecodeError, InputError, TooFewSitesError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Array, Message, pack, unpack
from fedgeom.methods.iterative import Ditto, FedAvg, Scaffold
from fedgeom.methods.iterative.conversation import Conversation, Group
from fedgeom.methods.iterative.messages import Begin, Finish, Finished, Ready, TrainMasked, TrainOpen, Update
from fedgeom.protocols.cohort import Hello, PublicKeys, join
from tests.methods.iterative.making import unlike, whole

RUN = b"r" * 32
SITES = unlike()
SHORT = {"rounds": 2, "epochs": 1}


def prepared(row, sites=SITES) -> tuple[Conversation, Sites, EmbeddedEngine]:
    """A run in which all sites have joined and know the classes."""
    engine = EmbeddedEngine(row, sites)
    asking = Sites(engine, run=RUN, method=row.name, roster=engine.roster)
    talk = Conversation(row, asking)
    talk.agree()
    return talk, asking, engine


def question(**changes) -> TrainOpen:
    asked = {"round": 0, "given": {"model": Array.of(np.zeros(3))}, "rates": {s.name: 0.1 for s in SITES}}
    return TrainOpen(**(asked | changes))


def refusal(asking: Sites, asked: Message, expect=Update) -> str:
    answers = asking.ask(asked, of=["s0"], expect=expect)
    assert not answers.came
    return answers.missing["s0"]


def test_no_open_question_in_a_secure_run():
    _, asking, _ = prepared(FedAvg(**SHORT))
    assert "this run was agreed on with secure sums; a site's own update is not shown" in refusal(
        asking, question()
    )


def test_no_masked_question_in_an_open_run():
    talk, _, _ = prepared(FedAvg(secure=False, **SHORT))
    talk.shared = np.ones(3, bool)
    with pytest.raises(TooFewSitesError, match=r"round 1 of this run is for 'nothing', not 'train.masked'"):
        talk._masked(0, Group(talk.members, {"model": np.zeros(3)}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"given": {"model": Array.of(np.zeros(4))}}, "do not fit the model of 3 shared numbers"),
        ({"given": {}}, "do not fit the model of 3 shared numbers"),
        ({"given": {"other": Array.of(np.zeros(3))}}, "do not fit the model"),
        ({"given": {"model": Array.of(np.array([0.0, np.nan, 0.0]))}}, "do not fit the model"),
        ({"given": {"model": Array.of(np.array([0.0, np.inf, 0.0]))}}, "do not fit the model"),
        ({"given": {"model": Array.of(np.zeros(3, np.float32))}}, "do not fit the model"),
        ({"given": {"model": Array.of(np.full(3, 1e300))}}, "do not fit the model"),
        ({"given": {"model": Array.of(np.zeros((3, 1)))}}, "do not fit the model"),
        ({"rates": {"s1": 0.1}}, "gives this site no learning rate"),
        ({"rates": {"s0": -0.1}}, "not a valid 'train.open' message"),
        ({"rates": {"s0": float("nan")}}, "not a valid 'train.open' message"),
        ({"round": -1}, "not a valid 'train.open' message"),
    ],
)
def test_questions_that_do_not_fit(changes, reason):
    _, asking, _ = prepared(FedAvg(secure=False, **SHORT))
    assert reason in refusal(asking, question(**changes))
    assert asking.ask(question(), of=["s0"], expect=Update).came  # a refusal changes nothing


def test_all_vectors_of_the_row_are_wanted():
    _, asking, _ = prepared(Scaffold(secure=False, **SHORT))
    assert "look at variate" in refusal(asking, question())


def test_no_training_before_the_scale_is_known():
    row = FedAvg(secure=False, **SHORT)
    engine = EmbeddedEngine(row, SITES)
    asking = Sites(engine, run=RUN, method=row.name, roster=engine.roster)
    terms = row.parameters() | {"seed": 0}
    asking.ask(Hello(rounds=1, terms=terms), expect=PublicKeys).need(4, "keys")
    assert "before it was told the classes" in refusal(asking, question())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"centre": Array.of(np.zeros(5))}, "the scale does not fit a table of 2 columns"),
        ({"spread": Array.of(np.array([1.0, 0.0]))}, "the scale does not fit"),
        ({"spread": Array.of(np.array([1.0, np.nan]))}, "the scale does not fit"),
        ({"centre": Array.of(np.array([1.0, np.nan]))}, "the scale does not fit"),
        ({"classes": ("class 0", "class 1", "class 2")}, "the site joined on classes=class 0\nclass 1"),
    ],
)
def test_scales_that_do_not_fit(changes, reason):
    _, asking, _ = prepared(FedAvg(classes=("class 0", "class 1"), **SHORT))
    usual = {"classes": ("class 0", "class 1"), "centre": Array.of(np.zeros(2)), "spread": Array.of(np.ones(2))}
    assert reason in refusal(asking, Begin(**(usual | changes)), Ready)


def test_data_that_do_not_fit_the_classes_stay_unnamed():
    _, asking, _ = prepared(FedAvg(**SHORT))
    ask = Begin(classes=("a", "b"), centre=Array.of(np.zeros(2)), spread=Array.of(np.ones(2)))
    assert refusal(asking, ask, Ready) == "the site's data do not fit this question; its own log says why"


@pytest.mark.parametrize(
    "terms",
    [
        {"rounds": "many"},
        {"rounds": -3},
        {"rate": None},
        {"learner": "forest"},
        {"aggregation": 7},
        {"secure": True, "aggregation": "median"},
    ],
)
def test_terms_that_are_none(terms):
    row = FedAvg(**SHORT)
    engine = EmbeddedEngine(row, SITES)
    asking = Sites(engine, run=RUN, method=row.name, roster=engine.roster)
    hello = Hello(rounds=3, terms=row.parameters() | {"seed": 0} | terms)
    answers = asking.ask(hello, expect=PublicKeys)
    assert not answers.came
    assert set(answers.missing) == {site.name for site in SITES}


def test_the_number_of_sums_follows_from_the_terms():
    row = FedAvg(**SHORT)
    engine = EmbeddedEngine(row, SITES)
    asking = Sites(engine, run=RUN, method=row.name, roster=engine.roster)
    answers = asking.ask(Hello(rounds=4, terms=row.parameters() | {"seed": 0}), expect=PublicKeys)
    assert "these terms need 3 sums, not 4" in answers.missing["s0"]


# Weights under which a sum is nearly one site's own vector.


def weighted(factors: dict[str, float], given: int = 3, sites=SITES) -> None:
    talk, _, _ = prepared(FedAvg(**SHORT), sites)
    talk.shared = np.ones(given, bool)
    talk._masked(0, Group(talk.members, {"model": np.zeros(given)}, factors))


def test_weights_may_differ_a_little():
    weighted({"s0": 1.0, "s1": 0.8, "s2": 0.9, "s3": 0.7})


@pytest.mark.parametrize(
    "factors",
    [
        {"s0": 1.0, "s1": 1e-6, "s2": 1e-6, "s3": 1e-6},
        {"s0": 1.0, "s1": 0.0, "s2": 0.0, "s3": 0.0},
        {"s0": 0.0, "s1": 0.0, "s2": 0.0, "s3": 0.0},
        {"s0": 1.0, "s1": 1.0, "s2": 0.0, "s3": 0.0},
        {"s0": 1.0, "s1": 0.5, "s2": 0.1, "s3": 0.1},
    ],
)
def test_weights_must_not_single_a_site_out(factors):
    with pytest.raises(
        TooFewSitesError, match=r"the weights make this a sum of \d\.\d sites; the policy asks for 3"
    ):
        weighted(factors)


@pytest.mark.parametrize("factor", [1.5, -0.1, float("nan")])
def test_weights_are_between_0_and_1(factor):
    with pytest.raises(DecodeError, match=r"not a valid 'train\.masked' message"):
        weighted({"s0": factor})


def test_weights_of_those_who_are_left_count():
    """Fair weights while all are there; with s2 and s3 lost, the sum would be nearly that of s0."""
    sites = unlike(n_sites=6)
    factors = {"s0": 1.0, "s1": 0.1, "s2": 1.0, "s3": 1.0, "s4": 0.1, "s5": 0.1}
    weighted(factors, sites=sites)
    talk, _, engine = prepared(FedAvg(**SHORT), sites)
    talk.shared = np.ones(3, bool)
    engine._interfere = lambda site, request: "gone" if site in ("s2", "s3") else None
    with pytest.raises(TooFewSitesError, match="the weights make this a sum of 1"):
        talk._masked(0, Group(talk.members, {"model": np.zeros(3)}, factors))


def test_weights_of_strangers():
    talk, _, _ = prepared(FedAvg(**SHORT))
    given = {"model": Array.of(np.zeros(3))}
    rates, factors = dict.fromkeys(talk.members, 0.1), dict.fromkeys(talk.members, 1.0)
    with pytest.raises(TooFewSitesError, match="the weights are not those of the sites that are summed"):
        talk.sum(
            lambda t: TrainMasked(ticket=t, round=0, given=given, factors=factors, rates=rates),
            6,
            talk.members[:3],  # weighed with the fourth, but without it
        )


# Asked the same again, a site answers the same again; its own vectors move on once.


@pytest.mark.parametrize("cls", [Scaffold, Ditto])
def test_the_same_question_again_gives_the_same_answer(cls):
    _, asking, engine = prepared(cls(secure=False, **SHORT))
    vectors = {name: Array.of(np.full(3, 0.1)) for name in cls.gives}
    first = asking.ask(question(given=vectors), of=["s0"], expect=Update)["s0"]
    kept = engine.memories["s0"]
    again = asking.ask(question(given=vectors), of=["s0"], expect=Update)["s0"]
    assert again == first
    assert engine.memories["s0"] == kept
    asking.ask(question(given=vectors, round=1), of=["s0"], expect=Update)
    had, has = (engine.hosts["s0"].wake(RUN, memory).memory.own for memory in (kept, engine.memories["s0"]))
    assert had != has


def test_one_question_a_round_and_no_more_rounds_than_agreed():
    """Answers to models of the coordinator's choice would tell it more than the terms say."""
    _, asking, engine = prepared(FedAvg(secure=False, **SHORT))
    first = asking.ask(question(), of=["s0"], expect=Update)["s0"]
    kept = engine.memories["s0"]
    other = {"model": Array.of(np.ones(3))}
    over = "is over, or was trained for another question already"
    assert f"round 1 {over}" in refusal(asking, question(given=other))
    assert "round 3 was asked for; the site joined on rounds=2" in refusal(asking, question(round=2))
    assert engine.memories["s0"] == kept
    assert asking.ask(question(), of=["s0"], expect=Update)["s0"] == first
    asking.ask(question(given=other, round=1), of=["s0"], expect=Update)
    assert f"round 1 {over}" in refusal(asking, question())


def test_a_scale_that_would_make_training_overflow():
    row = FedAvg(secure=False, classes=("no", "yes"), **SHORT)
    sites = [SiteData(s.name, s.X, np.where(np.arange(len(s)) % 2, "no", "yes")) for s in SITES]
    columns = sites[0].X.shape[1]
    begin = Begin(
        classes=("no", "yes"), centre=Array.of(np.zeros(columns)), spread=Array.of(np.full(columns, 1e-300))
    )
    engine = EmbeddedEngine(row, sites)
    asking = Sites(engine, run=RUN, method=row.name, roster=engine.roster)
    terms = row.parameters() | {"seed": 0}
    join(asking, rounds=len(row.site.sums(terms)), terms=terms, smallest=2)
    assert "the scale makes rows of this site larger than 1e+06" in refusal(asking, begin, expect=Ready)


def test_the_scale_is_told_once():
    _, asking, _ = prepared(FedAvg(secure=False, **SHORT))
    columns = SITES[0].X.shape[1]
    told = {"classes": ("no", "yes"), "centre": Array.of(np.zeros(columns)), "spread": Array.of(np.ones(columns))}
    names = tuple(sorted({str(name) for site in SITES for name in site.y.tolist()}))
    reason = refusal(asking, Begin(**(told | {"classes": names})), expect=Ready)
    assert "told other classes or another scale already" in reason


def test_the_same_masked_question_again_gives_the_same_answer():
    row = Scaffold(**SHORT)
    engine = EmbeddedEngine(row, SITES)
    inner = engine.hosts["s0"].answer
    pairs = []

    def twice(request, memory):
        answer, kept = inner(request, memory)
        again, still = inner(request, kept)
        pairs.append((unpack(answer).kind, answer == again, kept == still))
        return again, still

    engine.hosts["s0"].answer = twice
    asking = Sites(engine, run=RUN, method=row.name, roster=engine.roster)
    model = row.conduct(asking)
    assert all(answer and memory for _, answer, memory in pairs), pairs
    assert "sum.masked" in {kind for kind, _, _ in pairs}
    assert model.to_bytes() == fedgeom.run(row, SITES).model.to_bytes()


def test_finish_reveals_nothing_and_changes_no_training():
    _, asking, _ = prepared(Ditto(secure=False, **SHORT))
    given = {"model": Array.of(np.zeros(3))}
    first = asking.ask(question(), of=["s0"], expect=Update)["s0"]
    assert asking.ask(Finish(given=given), of=["s0"], expect=Finished)["s0"] == Finished()
    assert asking.ask(question(), of=["s0"], expect=Update)["s0"] == first


# What the coordinator does with answers that do not fit.


@pytest.mark.parametrize(
    ("spoil", "aggregation"),
    [
        (lambda u: msgspec.structs.replace(u, vectors={"model": Array.of(np.full(3, np.nan))}), "mean"),
        (lambda u: msgspec.structs.replace(u, vectors={"model": Array.of(np.full(3, 1e300))}), "mean"),
        (lambda u: msgspec.structs.replace(u, vectors={"model": Array.of(np.full(3, 1e300))}), "krum"),
        (lambda u: msgspec.structs.replace(u, vectors={"model": Array.of(np.zeros(5))}), "mean"),
        (lambda u: msgspec.structs.replace(u, vectors={}), "median"),
        (lambda u: msgspec.structs.replace(u, weight=0.0), "mean"),
        (lambda u: msgspec.structs.replace(u, weight=1e200), "mean"),
        (lambda u: msgspec.structs.replace(u, aside_loss=float("nan")), "mean"),
    ],
)
def test_a_bad_update_is_left_out(spoil, aggregation, tmp_path):
    row = FedAvg(secure=False, aggregation=aggregation, **SHORT)
    engine = EmbeddedEngine(row, SITES)
    inner = engine.hosts["s3"].answer

    def spoilt(request, memory):
        answer, kept = inner(request, memory)
        frame = unpack(answer)
        if frame.kind == Update.kind:
            answer = pack(frame.run, frame.method, spoil(msgspec.msgpack.decode(frame.body, type=Update)))
        return answer, kept

    engine.hosts["s3"].answer = spoilt
    asking = Sites(engine, run=RUN, method=row.name, roster=engine.roster)
    model = row.conduct(asking)
    assert "sent vectors that do not fit the model" in asking.lost["s3"]
    assert np.isfinite(whole(model)).all()


def test_a_site_in_another_process_remembers_what_it_must():
    """Every question finds a new site, built from bytes: see the engine. Its own vectors survive that."""
    _, asking, engine = prepared(Ditto(secure=False, **SHORT))
    asking.ask(question(), of=["s0"], expect=Update)
    woken = engine.hosts["s0"].wake(RUN, engine.memories["s0"])
    assert set(woken.memory.own) == {"personal"}


def test_input_errors_are_inputs():
    with pytest.raises(InputError):
        fedgeom.run(FedAvg(), [])

"""What a site refuses: it keeps to the terms on which it joined, whatever a coordinator asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import Ditto, FedAvg, Scaffold
from fedgeom.errors import DecodeError, InputError, ProtocolError, TooFewSitesError
from fedgeom.federation.messages import Array, pack, unpack
from fedgeom.methods.iterative import Tree
from fedgeom.methods.iterative.messages import Finish, Finished, TrainMasked, TrainOpen, Update
from fedgeom.methods.iterative.setup import BeginTraining, CountTrainingRows, SumTrainingColumns
from fedgeom.methods.iterative.site import TrainingSite, generator, set_aside
from fedgeom.methods.iterative.training import Group, Outcome, TrainingLoop
from fedgeom.methods.iterative.tree import from_wire, to_wire
from fedgeom.protocols.cohort import join
from fedgeom.protocols.join.messages import Hello, PublicKeys
from fedgeom.protocols.names import CountNames
from fedgeom.protocols.preparation import SumFloors
from tests.methods.iterative.asking import RUN, asking_of, prepared, refusal
from tests.methods.iterative.making import unlike, whole
from tests.unlisted import unlisted

SITES = unlike()
NAMES = tuple(site.name for site in SITES)
SHORT = {"n_rounds": 2, "epochs": 1}
ZERO = Tree(intercept=np.zeros(1), weights=np.zeros((2, 1)))


def model(**changes) -> dict[str, Array]:
    """A model of two columns and two classes, as it travels."""
    return to_wire(Tree(model=ZERO | changes))


@cache
def agreed() -> bytes:
    """What sites are told of classes and scale; it follows from their rows."""
    return prepared(FedAvg(**SHORT))[0].agreed.hash


def question(**changes) -> TrainOpen:
    asked = {"round": 0, "given": model(), "agreed": agreed()}
    return TrainOpen(**(asked | changes))


def test_no_open_question_in_a_secure_run():
    _, asking, _ = prepared(FedAvg(**SHORT))
    assert "this run was agreed on with secure sums; a site's own update is not shown" in refusal(
        asking, question()
    )


def test_no_masked_question_in_an_open_run():
    """None is planned, so the coordinator has no ticket for one, and a site admits none."""
    talk, _, _ = prepared(FedAvg(secure=False, **SHORT))
    with pytest.raises(ProtocolError, match=r"no further sum of kind 'train\.masked' is planned"):
        talk._masked(0, Group(talk.members, Tree(model=ZERO)))
    talk.cohort._planned.append(TrainMasked.kind)
    with pytest.raises(TooFewSitesError, match="round 3 was not announced when joining"):
        talk._masked(0, Group(talk.members, Tree(model=ZERO)))
    talk.cohort._planned, talk.cohort._next = [TrainMasked.kind], 0
    with pytest.raises(TooFewSitesError, match=r"round 0 of this run is for 'names\.count', not 'train\.masked'"):
        talk._masked(0, Group(talk.members, Tree(model=ZERO)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"given": model(weights=np.zeros((4, 1)))}, "look at the names and shapes in model"),
        ({"given": model(weights=np.zeros(2))}, "look at the names and shapes in model"),
        ({"given": model(more=np.zeros(1))}, "look at the names and shapes in model"),
        ({"given": {}}, "does not fit the model of 3 shared numbers: look at the names and shapes in model"),
        ({"given": {"model": Array.of(np.zeros(3))}}, "look at the names and shapes in model"),
        ({"given": {"other": Array.of(np.zeros(3))}}, "look at the names and shapes in model"),
        (
            {"given": {"model/weights": 1.0, "model": 1.0}},
            "the path 'model' goes through a leaf, or ends in a branch",
        ),
        ({"given": {"model/weights": 1.0, "model/weights/x": 1.0}}, "goes through a leaf"),
        ({"given": model(intercept=np.array([np.nan]))}, "some are huge or no numbers"),
        ({"given": model(intercept=np.array([np.inf]))}, "some are huge or no numbers"),
        ({"given": model(intercept=np.array([1e300]))}, "some are huge or no numbers"),
        ({"given": model(intercept=np.zeros(1, np.float32))}, "its numbers are of other dtypes"),
        ({"given": model(intercept=np.zeros(1, np.int64))}, "its numbers are of other dtypes"),
        ({"faster": ("s0",)}, "the terms of this run raise no site's learning rate"),
        ({"agreed": bytes(32)}, "about other classes or another scale than this site was told"),
        ({"round": -1}, "not a valid 'train.open' message"),
    ],
)
def test_questions_that_do_not_fit(changes, reason):
    _, asking, _ = prepared(FedAvg(secure=False, **SHORT))
    assert reason in refusal(asking, question(**changes))
    assert asking.ask(question(), of=["s0"], expect=Update).came  # a refusal changes nothing


@pytest.mark.parametrize(
    "variate",
    [
        {},
        {"variate/weights": Array.of(np.zeros((2, 1)))},
        {"variate": 0.0},
        to_wire(Tree(variate=ZERO | {"weights": np.zeros((1, 1))})),  # NumPy would stretch it
    ],
)
def test_all_branches_of_the_algorithm_are_wanted(variate):
    _, asking, _ = prepared(Scaffold(secure=False, **SHORT))
    reason = refusal(asking, question(given=model() | variate))
    assert "look at the names and shapes in variate" in reason


@pytest.mark.parametrize("number", [np.nan, 1e300])
def test_no_branch_may_be_huge(number):
    _, asking, _ = prepared(Scaffold(secure=False, **SHORT))
    variate = to_wire(Tree(variate=ZERO | {"intercept": np.array([number])}))
    assert "some are huge or no numbers" in refusal(asking, question(given=model() | variate))


def test_what_the_algorithm_does_not_give_plays_no_part():
    _, asking, _ = prepared(FedAvg(secure=False, **SHORT))
    first = asking.ask(question(), of=["s0"], expect=Update)["s0"]
    _, asking, _ = prepared(FedAvg(secure=False, **SHORT))
    more = question(given=model() | {"variate": Array.of(np.full(50, np.nan))})
    assert asking.ask(more, of=["s0"], expect=Update)["s0"] == first


def test_no_training_before_the_scale_is_known():
    row = FedAvg(secure=False, **SHORT)
    asking, _ = asking_of(row, SITES)
    asking.ask(Hello(rounds=3, terms=row.terms(), participants=NAMES), expect=PublicKeys).need(4, "keys")
    assert "asked before it joined" in refusal(asking, question())
    join(asking, row)
    assert "before it was told the classes" in refusal(asking, question())


@pytest.mark.parametrize(
    "terms",
    [
        {"n_rounds": "many"},
        {"n_rounds": -3},
        {"learning_rate": None},
        {"learner": "forest"},
        {"aggregation": 7},
        {"aggregation": {"name": "trimmed", "trim": 0.9}},
        {"aggregation": {"trim": 0.1}},
        {"secure": True, "aggregation": "median"},
        {"trim": 0.1},
        {"seed": 3},
    ],
)
def test_terms_that_are_none(terms):
    row = FedAvg(**SHORT)
    asking, _ = asking_of(row, SITES)
    answers = asking.ask(Hello(rounds=3, terms=row.terms() | terms, participants=NAMES), expect=PublicKeys)
    assert not answers.came
    assert set(answers.missing) == {site.name for site in SITES}
    assert all("the terms are not those of this method" in reason for reason in answers.missing.values())


def test_the_number_of_sums_follows_from_the_terms():
    row = FedAvg(**SHORT)
    asking, _ = asking_of(row, SITES)
    answers = asking.ask(Hello(rounds=6, terms=row.terms(), participants=NAMES), expect=PublicKeys)
    assert "these terms need 5 sums, not 6" in answers.missing["s0"]
    names = (CountNames, SumFloors)
    columns = (*names, SumTrainingColumns)
    counted = (*names, CountTrainingRows)
    training = (TrainMasked, TrainMasked)
    planned = TrainingSite.all_sums
    assert planned(row) == columns + training
    assert planned(FedAvg(scale="none", **SHORT)) == planned(FedAvg(scale="site", **SHORT)) == counted + training
    assert planned(FedAvg(scale="none", weights="sites", **SHORT)) == names + training
    assert planned(FedAvg(scale="none", bits=64, **SHORT)) == names + training
    assert planned(FedAvg(secure=False, **SHORT)) == planned(fedgeom.LocalOnly(**SHORT)) == columns
    assert planned(FedAvg(scale="site", aggregation="krum", **SHORT)) == names


# Weights under which a sum is nearly one site's own vector.


@unlisted
@dataclass(frozen=True, kw_only=True)
class Weighed(FedAvg):
    name: ClassVar[str] = "weighed"

    @property
    def weighs_sites(self) -> bool:
        return True


def weighted(factors: dict[str, float], sites=SITES, lost=(), algorithm=Weighed) -> Outcome:
    talk, _, engine = prepared(algorithm(**SHORT), sites)
    engine._interfere = lambda site, request: "gone" if site in lost else None
    return talk._masked(0, Group(talk.members, Tree(model=ZERO), factors))


def test_weights_may_differ_a_little():
    assert weighted({"s0": 1.0, "s1": 0.8, "s2": 0.9, "s3": 0.7}).sites == ("s0", "s1", "s2", "s3")


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
        TooFewSitesError,
        match=r"the weights make this a sum of \d\.\d sites; the policy asks for 3\. Weigh .*closeness=False",
    ):
        weighted(factors)


def test_weights_must_be_in_the_terms():
    """Two rounds with other weights of one site would differ by its vector."""
    assert weighted({}, algorithm=FedAvg).sites == ("s0", "s1", "s2", "s3")
    with pytest.raises(TooFewSitesError, match="all sites count by their rows alone"):
        weighted({"s0": 0.9}, algorithm=FedAvg)


@pytest.mark.parametrize("factor", [1.5, -0.1, float("nan")])
def test_weights_are_between_0_and_1(factor):
    with pytest.raises(DecodeError, match=r"not a valid 'train\.masked' message"):
        weighted({"s0": factor})


def test_weights_of_those_who_are_left_count():
    """Fair weights while all are there; with s2 and s3 lost, the sum would be nearly that of s0."""
    sites = unlike(n_sites=6)
    factors = {"s0": 1.0, "s1": 0.1, "s2": 1.0, "s3": 1.0, "s4": 0.1, "s5": 0.1}
    weighted(factors, sites=sites)
    with pytest.raises(TooFewSitesError, match="the weights make this a sum of 1"):
        weighted(factors, sites=sites, lost=("s2", "s3"))


def test_weights_of_strangers():
    talk, _, _ = prepared(FedAvg(**SHORT))
    factors = dict.fromkeys(talk.members, 1.0)
    ask = TrainMasked(round=0, given=model(), factors=factors, agreed=agreed())
    with pytest.raises(TooFewSitesError, match="the weights are not those of the sites that are summed"):
        # Weighed with the fourth, but without it.
        talk.cohort.sum_group(ask, length=6, participants=talk.members[:3])


# Asked the same again, a site answers the same again; its own vectors move on once.


@pytest.mark.parametrize("cls", [Scaffold, Ditto])
def test_the_same_question_again_gives_the_same_answer(cls):
    _, asking, engine = prepared(cls(secure=False, **SHORT))
    given = to_wire(Tree(dict.fromkeys(cls.gives, ZERO + 0.1)))
    first = asking.ask(question(given=given), of=["s0"], expect=Update)["s0"]
    kept = engine.memories["s0"]
    again = asking.ask(question(given=given), of=["s0"], expect=Update)["s0"]
    assert again == first
    assert engine.memories["s0"] == kept
    asking.ask(question(given=given, round=1), of=["s0"], expect=Update)
    had, has = (engine.runners["s0"].restore(RUN, memory).memory.own for memory in (kept, engine.memories["s0"]))
    assert had != has


def test_one_question_a_round_and_no_more_rounds_than_agreed():
    """Answers to models of the coordinator's choice would tell it more than the terms say."""
    _, asking, engine = prepared(FedAvg(secure=False, **SHORT))
    first = asking.ask(question(), of=["s0"], expect=Update)["s0"]
    kept = engine.memories["s0"]
    other = to_wire(Tree(model=ZERO + 1))
    over = "is over, or was trained for another question already"
    assert "another question 'train.open 0' was answered in this run already" in refusal(
        asking, question(given=other)
    )
    assert "round 3 was asked for; the site joined on n_rounds=2" in refusal(asking, question(round=2))
    assert engine.memories["s0"] == kept
    assert asking.ask(question(), of=["s0"], expect=Update)["s0"] == first
    asking.ask(question(given=other, round=1), of=["s0"], expect=Update)
    assert f"round 1 {over}" in refusal(asking, question())


def test_the_same_masked_question_again_gives_the_same_answer():
    row = Scaffold(**SHORT)
    asking, engine = asking_of(row, SITES)
    inner = engine.runners["s0"].answer
    pairs = []

    def twice(request, memory):
        answer, kept = inner(request, memory)
        again, still = inner(request, kept)
        pairs.append((unpack(answer).kind, answer == again, kept == still))
        return again, still

    engine.runners["s0"].answer = twice
    found = row.conduct(asking)
    assert all(answer and memory for _, answer, memory in pairs), pairs
    assert "sum.masked" in {kind for kind, _, _ in pairs}
    assert found.to_bytes() == fedgeom.run(row, SITES).model.to_bytes()


def test_finish_reveals_nothing_and_changes_no_training():
    _, asking, _ = prepared(Ditto(secure=False, **SHORT))
    first = asking.ask(question(), of=["s0"], expect=Update)["s0"]
    assert asking.ask(Finish(given=model()), of=["s0"], expect=Finished)["s0"] == Finished()
    assert asking.ask(question(), of=["s0"], expect=Update)["s0"] == first


# What the coordinator does with answers that do not fit.


@pytest.mark.parametrize(
    ("spoil", "aggregation"),
    [
        (lambda u: msgspec.structs.replace(u, sent=model(intercept=np.array([np.nan]))), "mean"),
        (lambda u: msgspec.structs.replace(u, sent=model(intercept=np.array([1e300]))), "mean"),
        (lambda u: msgspec.structs.replace(u, sent=model(intercept=np.array([1e300]))), "krum"),
        (lambda u: msgspec.structs.replace(u, sent=model(weights=np.zeros((5, 1)))), "mean"),
        (lambda u: msgspec.structs.replace(u, sent=model(weights=np.zeros(2))), "mean"),
        (lambda u: msgspec.structs.replace(u, sent=u.sent | {"more": 1.0}), "mean"),
        (lambda u: msgspec.structs.replace(u, sent={"model": 1.0, "model/weights": 1.0}), "mean"),
        (lambda u: msgspec.structs.replace(u, sent={}), "median"),
        (lambda u: msgspec.structs.replace(u, weight=0.0), "mean"),
        (lambda u: msgspec.structs.replace(u, weight=1e200), "mean"),
        (lambda u: msgspec.structs.replace(u, figures=(0.0,)), "mean"),
    ],
)
def test_a_bad_update_is_left_out(spoil, aggregation):
    row = FedAvg(secure=False, aggregation=aggregation, **SHORT)
    asking, engine = asking_of(row, SITES)
    inner = engine.runners["s3"].answer

    def spoilt(request, memory):
        answer, kept = inner(request, memory)
        frame = unpack(answer)
        if frame.kind == Update.kind:
            answer = pack(frame.run, frame.method, spoil(msgspec.msgpack.decode(frame.body, type=Update)))
        return answer, kept

    engine.runners["s3"].answer = spoilt
    found = row.conduct(asking)
    assert "sent arrays that do not fit the model; wanted model of 3 numbers in all" in asking.lost["s3"]
    assert asking.left_out == {"s3"}
    assert np.isfinite(whole(found)).all()


def test_a_site_in_another_process_remembers_what_it_must():
    """Every question finds a new site, built from bytes: see the engine. What is its own survives that."""
    _, asking, engine = prepared(Ditto(secure=False, **SHORT))
    asking.ask(question(), of=["s0"], expect=Update)
    restored = engine.runners["s0"].restore(RUN, engine.memories["s0"])
    assert list(from_wire(restored.memory.own)) == ["personal"]


def test_rows_set_aside_are_a_share_and_the_same_in_every_round():
    first = set_aside(20, 0.25, 3, "s0")
    assert first.sum() == 5
    assert (first == set_aside(20, 0.25, 3, "s0")).all()
    assert (first != set_aside(20, 0.25, 3, "s1")).any()
    assert (first != set_aside(20, 0.25, 4, "s0")).any()
    assert not set_aside(20, 0.0, 3, "s0").any()


def test_every_site_round_and_purpose_draws_for_itself():
    places = [(3, 0, "s0", 0), (4, 0, "s0", 0), (3, 1, "s0", 0), (3, 0, "s1", 0), (3, 0, "s0", 1)]
    draws = {generator(*at[:3], purpose=at[3]).integers(2**60) for at in places}
    assert len(draws) == len(places)
    assert generator(3, 0, "s0").integers(2**60) == generator(3, 0, "s0").integers(2**60)


def test_input_errors_are_inputs():
    with pytest.raises(InputError):
        fedgeom.run(FedAvg(), [])


def test_sites_that_were_told_different_scales_are_not_summed():
    """With a huge spread for the others, the sum of updates would be the victim's alone: they check the sums."""
    asking, _ = asking_of(FedAvg(**SHORT), unlike())
    talk = TrainingLoop(FedAvg(**SHORT), asking)
    honest = asking.ask

    def ask(question, **options):
        if isinstance(question, BeginTraining):
            total = question.columns.total.numpy()
            total[-2:] = 2**60
            wide = msgspec.structs.replace(question.columns, total=Array.of(total))
            others = dict.fromkeys(options["of"], msgspec.structs.replace(question, columns=wide))
            return honest(others | {"s0": question}, expect=options["expect"])
        return honest(question, **options)

    asking.ask = ask
    with pytest.raises(TooFewSitesError, match="its tag does not fit"):
        talk.conduct()


def test_a_drifted_site_learns_faster_by_what_the_terms_say():
    pytest.importorskip("gudhi")
    method = fedgeom.PTopoFL(n_rounds=2, epochs=1, secure=False, track_every=1, drift_factor=3.0, n_points=8)
    assert method.raised_rate == 3.0
    assert fedgeom.PTopoFL(n_rounds=2).raised_rate is None

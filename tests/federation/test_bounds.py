"""No small question costs a site much, whatever it says: what would be large is refused before it is built.

A site answers with at most ``max_message_bytes``; here that is a megabyte, and what a question costs is in proportion.
"""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import decode, pack, unpack
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.methods.iterative.setup import BeginTraining
from fedgeom.protocols.join.messages import Hello
from tests.federation import fuzzing, worst
from tests.federation.fuzzing import RUN, SPOILT, Exchange

SMALL = Policy(max_message_bytes=2**20)
MOST_MB = 24
"""Of which 20 MB are Sidon labels for 3 times 4,096 classes; without those it would be 8."""
METHODS = {f"{at} {method.name}": method for at, method in enumerate(SPOILT)}


def one_of_each(method) -> list[Exchange]:
    found: dict[str, Exchange] = {}
    for exchange in fuzzing.record(method):
        found.setdefault(unpack(exchange.request).kind, exchange)
    return list(found.values())


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
def test_no_number_in_a_question_makes_it_dear(name):
    spent = []
    for exchange in one_of_each(METHODS[name]):
        runner = worst.strict(exchange.runner, SMALL)
        tree = msgspec.msgpack.decode(unpack(exchange.request).body)
        for path, value in [((), None), *worst.changes(tree)]:
            what = f"{exchange.question.kind} with {path} = {value}"
            spent.append(worst.spend(runner, worst.changed(exchange, path, value), exchange.before, what))
    dear = [cost for cost in spent if cost.megabytes > MOST_MB]
    assert not dear
    assert len(spent) > 50
    assert any(cost.said in ("sum.masked", "join.keys") for cost in spent)


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
def test_no_setting_makes_the_questions_that_follow_dear(name):
    method, spent = METHODS[name], []
    for exchange in one_of_each(method):
        runner = worst.strict(exchange.runner, SMALL)
        tree = msgspec.msgpack.decode(unpack(exchange.request).body)
        for setting, value in worst.extremes(method):
            terms = {**method.terms(), setting: value}
            if exchange.question is Hello:
                question = msgspec.structs.replace(decode(unpack(exchange.request).body, Hello), terms=terms)
                asked, memory = [pack(RUN, method.name, question)], None
            else:
                memory = worst.joined_on(exchange, method, terms)
                places = [path for path, worse in worst.changes(tree) if worse == worst.LARGE[0]]
                fitting = [path for path in places if path[-1] in (setting, "count", "nearest", "capacity")]
                asked = [exchange.request, *(worst.changed(exchange, path, value) for path in fitting)]
                if memory is None:
                    continue
            what = f"{exchange.question.kind} after joining on {setting} = {value}"
            spent += [worst.spend(runner, request, memory, what) for request in asked]
    dear = [cost for cost in spent if cost.megabytes > MOST_MB]
    assert not dear
    assert len(spent) > 20


@pytest.mark.parametrize("round", [2, 2**31 - 1])
@pytest.mark.parametrize("method", [fedgeom.FedAvg(n_rounds=2, steps=1), fedgeom.Scaffold(n_rounds=2, steps=1)])
def test_a_round_far_away_is_refused_at_once(method, round):
    exchange = [one for one in fuzzing.record(method) if unpack(one.request).kind == "train.masked"][-1]
    request = worst.changed(exchange, ("round",), round)
    with fuzzing.no_longer_than(1):
        cost = worst.spend(exchange.runner, request, exchange.before)
    assert "n_rounds=2" in cost.said
    assert cost.seconds < 0.2


# --- wide tables, and questions with many classes or anchors ---


def wide_sites(columns: int) -> list[SiteData]:
    rng, y = np.random.default_rng(0), np.repeat(["no", "yes"], 10)
    return [SiteData(name, 0.05 * rng.normal(size=(20, columns)) + (y == "no")[:, None], y) for name in "abc"]


def joined(method, columns: int):
    """Return a site that is about to answer its last sum, and that question."""
    engine, heard = EmbeddedEngine(method, wide_sites(columns)), {}
    honest = engine.runners["a"].answer

    def listen(request, memory):
        heard[unpack(request).kind] = (request, memory)
        return honest(request, memory)

    engine.runners["a"].answer = listen  # type: ignore[method-assign]
    with contextlib.suppress(InputError):  # a sum of classes that nobody has makes no model
        method.conduct(Coordinator(engine, run=RUN, method=method.name, roster=engine.roster))
    return worst.strict(engine.runners["a"], SMALL), heard


MANY = tuple(sorted(["no", "yes", *(f"{at}" for at in range(3000))]))
"""Some 20 kB of names."""


def ask(runner, heard, kind, question, **fields):
    """Put a question of the run to the site, with other fields."""
    request, memory = heard[kind]
    frame = unpack(request)
    said = msgspec.structs.replace(decode(frame.body, question), **fields)
    return worst.spend(runner, fuzzing.restamp(pack(RUN, frame.method, said), question), memory)


def test_moments_of_many_classes_over_many_columns_are_not_computed():
    runner, heard = joined(fedgeom.Moments(space="euclidean", classes=MANY), 40)
    cost = worst.spend(runner, *heard["moments.sum"])
    assert (
        "the answer would have 21,662,432 bytes; the policy of 'a' has max_message_bytes = 1,048,576" in cost.said
    )
    assert cost.megabytes < 8


def test_a_model_of_many_classes_and_columns_is_not_begun():
    runner, heard = joined(fedgeom.FedAvg(n_rounds=1, steps=1), 200)
    cost = ask(runner, heard, "train.begin", BeginTraining, classes=MANY)
    assert "max_message_bytes = 1,048,576" in cost.said
    assert cost.megabytes < 8


def test_hessians_over_many_columns_are_not_added_up():
    method = fedgeom.Shrunk(n_rounds=1, n_folds=2)
    runner, heard = joined(method, 60)
    cost = worst.spend(runner, *heard["shrunk.terms"])
    assert cost.said == "sum.masked"
    small = worst.strict(runner, Policy(max_message_bytes=2**17))
    cost = worst.spend(small, *heard["shrunk.terms"])
    assert "max_message_bytes = 131,072" in cost.said
    assert cost.megabytes < 8


def test_anchors_are_tied_and_cells_summed_only_as_far_as_the_answer_may_be_sent():
    runner, heard = joined(fedgeom.XCLP(graph="anchors", n_anchors=100_000, n_rounds=1, min_cell=1), 3)
    cost = worst.spend(runner, *heard["xclp.cell-counts"])
    assert "the answer would have 1,600,000 bytes" in cost.said
    assert cost.megabytes < 8
    runner, heard = joined(fedgeom.XCLP(graph="anchors", n_anchors=60, n_rounds=3, min_cell=1), 3)
    request, memory = heard["xclp.codes"]
    tight = worst.strict(runner, Policy(max_message_bytes=len(request) + 10))
    assert "max_message_bytes" in worst.spend(tight, request, memory).said


def test_the_shape_of_so_many_points_that_memory_would_run_short_is_not_described():
    pytest.importorskip("gudhi")
    engine = EmbeddedEngine(fedgeom.PTopoFL(), wide_sites(2))
    permissive = engine.runners["a"]
    real = worst.strict(permissive, StrictPolicy(secure_only=False))

    def invite(runner, method) -> str:
        planned = len(method.site.all_sums(method))
        hello = Hello(rounds=planned, terms=method.terms(), participants=("a", "b", "c"))
        return worst.spend(runner, pack(RUN, "ptopofl", hello), None).said

    many = fedgeom.PTopoFL(n_rounds=1, steps=1, n_points=10_000)
    assert invite(permissive, many) == "join.keys"
    assert "max_memory_mb = 8192, of which one question may take" in invite(real, many)
    assert "max_memory_mb" not in invite(real, fedgeom.PTopoFL(n_rounds=1, steps=1))


def test_an_answer_that_is_larger_than_allowed_after_all_is_not_sent_and_the_site_leaves(caplog):
    runner, heard = joined(fedgeom.Moments(space="euclidean"), 4)
    tight = worst.strict(runner, Policy(max_message_bytes=len(heard["names.open"][0])))
    request, memory = heard["names.seal"]
    assert worst.spend(tight, request, memory).said == "names.sealed"
    tight = worst.strict(runner, Policy(max_message_bytes=len(request) + 10))
    assert "its own log says why" in worst.spend(tight, request, memory).said
    assert "the answer has" in caplog.text

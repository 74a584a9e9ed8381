"""The site's half: what it counts, by hand and by law, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.messages import encode
from fedgeom.federation.model import Model
from fedgeom.federation.policy import Policy
from fedgeom.protocols.evaluation import Counts, SumEvaluation, count_rows
from fedgeom.protocols.secure_sum.messages import hash_question
from fedgeom.testing.rehearsal import Rehearsal, example_sites, refused


class Told(Model):
    """A model that says what it is told."""

    method = "told"

    def __init__(self, names: list[str], said: list[str]):
        self.names, self._said = names, np.array(said)

    @property
    def joint_classes(self) -> int:
        return len(self.classes_)

    def answer_numbers(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.classes_.tolist())}

    def predict(self, X: Any) -> np.ndarray:
        return self._said[: len(X)]


def test_counts_by_hand():
    train = SiteData("s", [[0.0], [1.0], [2.0], [3.0], [4.0]], ["a", "a", "b", "b", "b"])
    aside = SiteData("s", [[0.5], [3.5], [3.6]], ["a", "b", "a"])
    own = Told(["a", "b", "c"], ["a", "c", "b"])
    found = count_rows(train, aside, own, Told(["a", "b", "c"], ["a", "b", "b"]), {"a": 0, "b": 1, "c": 2})
    assert found.sites == 1
    assert found.trained.tolist() == [2, 3, 0, 0]
    assert found.models["own"].confusion.tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert (found.models["own"].right, found.models["joint"].right) == (1, 2)
    # Alone, the site tells a from b by the one column there is: 0.5 is a, 3.5 and 3.6 are b.
    assert found.models["local"].confusion.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_a_site_without_rows_aside_counts_none():
    train = SiteData("s", [[0.0], [1.0]], ["a", "b"])
    found = count_rows(train, train.take(np.zeros(2, bool)), Told(["a", "b"], []), None, {"a": 0, "b": 1})
    assert found.sites == 0
    assert found.flat().sum() == 2  # the rows learnt from


def counted(local: dict[str, Any]) -> Counts:
    return Counts.read(np.array(local["evaluation"]["counts"]), local["evaluation"]["classes"])


@pytest.mark.parametrize("method", ["moments", "hulls", "ditto", "shrunk"])
def test_the_secure_sum_is_the_sum_of_what_the_sites_count(method):
    run = fedgeom.run(method, example_sites(rows=40), holdout=0.25)
    total = sum(counted(local).flat() for local in run.local.values())
    summed = Counts.read(total, 2)
    assert run.evaluation.confusion == summed.models["own"].confusion.tolist()
    assert run.evaluation.sites == 4
    assert run.evaluation.rows == sum(len(one) for one in run.test) == 40
    assert ("joint" in run.evaluation) == (method in ("ditto", "shrunk"))


def test_the_joint_model_is_the_coordinators():
    run = fedgeom.run(fedgeom.Ditto(n_rounds=3), example_sites(rows=40), holdout=0.25)
    right = sum(int((run.model.predict(one.X) == one.y).sum()) for one in run.test)
    assert run.evaluation["joint"].accuracy.value == right / 40


def test_two_words_in_one_class_are_counted_as_wrong():
    """East's "left" and "far left" are one class of the hulls; the model can say one of both words."""
    sites = example_sites(rows=60)
    y = np.where((sites[3].y == "left") & (np.arange(60) % 4 == 0), "far left", sites[3].y)
    run = fedgeom.run(fedgeom.Hulls(n_classes=3), [*sites[:3], replace(sites[3], y=y)], holdout=0.25)
    names, aside = run.local["site-4"]["names"], run.test[3]
    own = run.model.for_site(run.local["site-4"])
    wrong = (own.predict(aside.X) != aside.y).sum()
    found = counted(run.local["site-4"]).models["own"]
    assert found.right == len(aside) - wrong
    true = np.bincount([names.get(word, 3) for word in aside.y], minlength=4)
    assert found.confusion.sum(axis=1).tolist() == true.tolist()


def test_rows_without_a_label_are_not_tested():
    sites = [replace(site, y=np.where(np.arange(40) % 3, site.y, "")) for site in example_sites(rows=40)]
    run = fedgeom.run(fedgeom.XCLP(hash_bits=64, hamming="ot"), sites, holdout=0.25)
    assert all((one.y != "").all() for one in run.test)
    assert run.evaluation.rows == sum(map(len, run.test)) > 10
    assert len(run.labels["site-1"]) == len(run.train[0])


def test_a_gap_in_a_row_kept_aside_is_found_before_anything_is_sent():
    sites = example_sites(rows=40)
    gone = {}
    for row in range(40):  # some of them are kept aside
        X = sites[1].X.copy()
        X[row, 1] = np.nan
        with pytest.raises(InputError, match=f"site 'site-2': row {row}, column 1 is nan"):
            fedgeom.run("moments", [sites[0], replace(sites[1], X=X), *sites[2:]], holdout=0.25)
        gone[row] = True
    assert len(gone) == 40


def test_sites_without_groups_are_named_before_the_run():
    sites = example_sites(rows=40)
    grouped = [replace(site, groups=np.arange(40) // 4) for site in sites[:2]]
    with pytest.raises(InputError, match=r"sites 'site-3', 'site-4': .*no group column"):
        fedgeom.run("moments", [*grouped, *sites[2:]], holdout=Holdout(0.25, grouped=True))
    run = fedgeom.run("moments", [*grouped, *sites[2:]], holdout=0.25)
    assert not set(run.train[0].groups.tolist()) & set(run.test[0].groups.tolist())


def test_rare_classes_are_neither_learnt_nor_tested():
    sites = example_sites(rows=60)
    sites[0] = replace(sites[0], y=np.where(np.arange(60) % 3 == 0, "odd", sites[0].y))
    policy = Policy(single_site_classes=False)
    run = fedgeom.run("moments", sites, holdout=0.25, policy=policy)
    assert run.local["site-1"]["left out"] == ["odd"]
    assert run.evaluation.classes == ["left", "right"]
    assert run.evaluation.rows == sum(int((one.y != "odd").sum()) for one in run.test)


@pytest.fixture(scope="module")
def held() -> Rehearsal:
    return Rehearsal(fedgeom.Moments(holdout=0.25), example_sites()).conduct()


def stamped(question: SumEvaluation) -> SumEvaluation:
    ticket = msgspec.structs.replace(question.ticket, question_hash=hash_question(question))
    return msgspec.structs.replace(question, ticket=ticket)


def test_what_a_lying_coordinator_cannot_ask(held):
    """A test before there is a model, of other classes, a second one, or in another method's round."""
    one = next(one for one in held.exchanges if one.frame.kind == SumEvaluation.kind)
    question, runner = held.question(one), held.runner(one.site)
    assert isinstance(question, SumEvaluation)

    def ask(asked: SumEvaluation, memory: bytes | None) -> str:
        return refused(runner.answer(held.request(asked, encode(asked)), memory)[0])

    early = next(e for e in held.exchanges if e.frame.kind == "model.result" and e.site == one.site)
    assert "before the site had one" in ask(question, early.before)
    others = stamped(msgspec.structs.replace(question, classes=3))
    assert "a model of 3 classes was to be tested" in ask(others, one.before)
    assert "used for another question already" in ask(others, one.after)
    first = msgspec.structs.replace(question.ticket, round=0)
    assert "is for 'names.count'" in ask(stamped(msgspec.structs.replace(question, ticket=first)), one.before)
    assert ask(question, one.before) == ask(question, one.after) == ""


def test_asked_again_it_sends_the_same(held):
    one = next(one for one in held.exchanges if one.frame.kind == SumEvaluation.kind)
    reply, memory = held.runner(one.site).answer(one.request, one.after)
    assert reply == one.reply
    assert memory == one.after


def test_without_a_holdout_there_is_no_test(held):
    bare = Rehearsal(fedgeom.Moments(), example_sites()).conduct()
    assert SumEvaluation.kind not in {one.frame.kind for one in bare.exchanges}
    last = [one for one in bare.exchanges if one.site == "site-1"][-1]
    found = [one for one in held.exchanges if one.frame.kind == SumEvaluation.kind and one.site == "site-1"]
    question = held.question(found[0])
    reply, _ = bare.runner("site-1").answer(bare.request(question, encode(question)), last.after)
    assert "was not announced when joining" in refused(reply)

"""Reading labels, at the site: as the terms say, counted once inside a sum, and scaled by numbers that can be true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import XCLP
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.results import LEAVES
from fedgeom.methods.xclp.core import (
    at_site,
    code_confidence,
    confidence_level,
    keep_known,
    label_numbers,
    labels_and_confidence,
    setting_for,
)
from fedgeom.methods.xclp.messages import Collect, CountLabels, Reading, ResultKept, Weigh
from fedgeom.methods.xclp.site import SpreadPart
from fedgeom.protocols.secure_sum.messages import hash_question
from tests.methods.coordinators import RUN, fresh, hold, overhear, refusals, stamped
from tests.methods.xclp.making import cones

pytestmark = pytest.mark.full

replace = msgspec.structs.replace
METHOD = XCLP(hash_bits=64, hamming="ot")
SCALED = XCLP(hash_bits=64, hamming="ot", confidence="code")
SCALED_ANCHORS = XCLP(graph="anchors", n_anchors=8, n_rounds=3, min_cell=2, confidence="code")
SITES = cones(3, rows=12, labelled=0.5)


def reading(**changes: Any) -> Callable[[Collect], Collect]:
    """Return a lie about how labels are read."""
    return lambda ask: replace(ask, reading=replace(ask.reading, **changes))


@pytest.mark.parametrize(
    ("method", "kind", "change", "words"),
    [
        (METHOD, Collect, reading(counts=Array.of(np.array([np.nan]))), "class counts"),
        (METHOD, Collect, reading(counts=Array.of(np.array([1.0, -1.0, 2.0]))), "class counts"),
        (METHOD, Collect, reading(prior="em-unchecked"), "prior=em-unchecked"),
        (METHOD, Collect, reading(variant="paper"), "variant=paper"),
        (SCALED, CountLabels, lambda ask: stamped(ask, stamp=bytes(32)), "read otherwise"),
        (SCALED_ANCHORS, CountLabels, lambda ask: stamped(ask, stamp=bytes(32)), "read otherwise"),
        (SCALED, CountLabels, lambda ask: stamped(ask, classes=ask.classes[::-1]), "read otherwise"),
        (SCALED, Weigh, lambda ask: replace(ask, level=0), LEAVES),
        (SCALED_ANCHORS, Weigh, lambda ask: replace(ask, sizes=Array.of(np.zeros(3))), LEAVES),
        (SCALED, Weigh, lambda ask: replace(ask, sizes=Array.of(np.full(3, np.nan))), "not 3 counts"),
        (SCALED_ANCHORS, Weigh, lambda ask: replace(ask, sizes=Array.of(np.ones(4))), "not 3 counts"),
    ],
)
def test_questions_that_depart_from_the_terms_are_refused(
    method: XCLP, kind: type[Any], change: Callable[[Any], Any], words: str
) -> None:
    assert all(words in reason for reason in refusals(method, SITES, kind, change, to="site-2"))


def test_confidences_are_not_scaled_where_the_site_did_not_join_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is not planned on these terms, and the numbers that come of it are refused too."""
    told: list[str] = []
    collect = SpreadPart.collect

    def then_weigh(self: SpreadPart, ask: Collect) -> ResultKept:
        kept = collect(self, ask)
        wrong = replace(ask.of, round=0)
        count = CountLabels(ticket=wrong, classes=self.memory.classes, stamp=bytes(32))
        count = replace(count, ticket=replace(wrong, question_hash=hash_question(count)))
        for question in (count, Weigh(level=4096, sizes=Array.of(np.full(3, 99.0)))):
            with pytest.raises(ProtocolError) as refusal:
                self.site.answer(question)
            told.append(str(refusal.value))
        return kept

    monkeypatch.setattr(SpreadPart, "collect", then_weigh)
    fedgeom.run(METHOD, SITES)
    assert len(told) == 6
    assert "not 'xclp.label-counts'" in told[0]
    assert "confidence=code is asked for" in told[1]


def test_joint_numbers_are_taken_only_of_labels_that_were_counted() -> None:
    def early(ask: CountLabels) -> Weigh:
        return Weigh(level=4096, sizes=Array.of(np.full(3, 99.0)))

    for method in (SCALED, SCALED_ANCHORS):
        assert refusals(method, SITES, CountLabels, early) == {
            "joint numbers came of labels that this site did not count"
        }


@pytest.mark.parametrize("method", [SCALED, SCALED_ANCHORS])
def test_joint_numbers_come_once(method: XCLP) -> None:
    """A site that answered yes or no to many could be asked until they tell its own counts."""
    heard, engine = overhear(method, SITES)
    one = next(one for one in heard if isinstance(one.question, Weigh))
    site = engine.runners[one.name].restore(RUN, engine.memories[one.name])
    assert site.answer(one.question) == ResultKept()
    for changes in ({"level": one.question.level - 1}, {"sizes": Array.of(np.full(3, 99.0))}):
        with pytest.raises(ProtocolError, match=r"'xclp.weigh 0' was answered in this run already"):
            site.answer(replace(one.question, **changes))


def test_labels_are_read_as_the_variant_says_and_nothing_else_is_kept() -> None:
    held = hold(SCALED_ANCHORS, SITES)
    for site in SITES:
        reader = held.site(site.name).labels
        memory = reader.memory
        Z = np.random.default_rng(0).random((len(site), 3))
        told = Reading(variant="ours", prior="em", counts=Array.of(np.array([5.0, 6.0, 7.0])))
        reader.read(Z, ("0", "1", "2"), told)
        wanted = at_site(
            Z,
            label_numbers(site.y, ("0", "1", "2")),
            setting_for("ours", None, None),
            np.array([5.0, 6.0, 7.0]),
            "em",
        )
        np.testing.assert_array_equal(memory.scores.numpy(), wanted.scores)
        known = label_numbers(site.y, ("0", "1", "2"))
        np.testing.assert_array_equal(memory.labels.numpy(), keep_known(wanted.codes, known))
        assert memory.confidences is None  # in no unit of the others' until the joint numbers come
        assert "confidences" not in reader.result()


def test_scaled_confidences_are_the_reference_codes_and_stay_when_labels_are_read_again() -> None:
    heard, engine = overhear(SCALED, SITES)
    weigh = next(one.question for one in heard if isinstance(one.question, Weigh))
    sites = {name: engine.runners[name].restore(RUN, engine.memories[name]) for name in engine.names}
    scores = {name: site.labels.memory.scores for name, site in sites.items()}
    weigh_classes = next(iter(sites.values())).labels.memory.classes
    sure = [labels_and_confidence(found.numpy())[1] for found in scores.values()]
    assert weigh.level == max(map(confidence_level, sure))
    for one in heard:
        if isinstance(one.question, Collect):  # asked again after all is done
            _, memory = engine.runners[one.name].answer(one.request, engine.memories[one.name])
            again = engine.runners[one.name].restore(RUN, memory).labels.memory.confidences
            known = label_numbers(next(site.y for site in SITES if site.name == one.name), weigh_classes)
            wanted = code_confidence(scores[one.name].numpy(), weigh.level, weigh.sizes.numpy(), known)
            np.testing.assert_array_equal(again.numpy(), wanted)


def test_rows_that_no_label_reaches_have_an_empty_name() -> None:
    site = fresh(METHOD, SITES[0])
    assert site.labels.result() == {}
    memory = site.labels.memory
    memory.classes, memory.labels = ("a", "b"), Array.of(np.array([1, -1, 0]))
    memory.scores, memory.confidences = Array.of(np.zeros((3, 2))), Array.of(np.array([0.5, 0.0, 1.0]))
    assert site.labels.result() == {
        "labels": ["b", "", "a"],
        "confidences": [0.5, 0.0, 1.0],
        "scores": [[0.0, 0.0]] * 3,
    }

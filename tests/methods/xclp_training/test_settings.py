"""When labels spread, who is drawn, and which settings make no sense."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative.tree import Tree
from tests.methods.xclp_training.making import PAIRS, quick

MEMBERS = tuple(f"s{at:03d}" for at in range(100))


def test_labels_spread_after_the_warm_start_in_every_few_rounds():
    assert [r for r in range(12) if quick(n_rounds=12, warmup_rounds=3, relabel_every=4).spreads_in(r)] == [
        3,
        7,
        11,
    ]
    assert [r for r in range(9) if quick(n_rounds=9, warmup_rounds=None).labels_in(r)] == list(range(3, 9))
    assert not any(quick(labels="network").spreads_in(r) for r in range(3))
    assert quick(labels="network").labels_in(1)
    with pytest.raises(InputError, match="labels never spread"):
        quick(warmup_rounds=3)


@pytest.mark.parametrize(("with_labels", "wanted"), [(50, (3, 2)), (20, (1, 4)), (98, (5, 0)), (2, (1, 4))])
def test_sites_with_labels_are_drawn_in_their_share(with_labels, wanted):
    method = quick(participation=0.05, labelled_sites=MEMBERS[:with_labels])
    draws = [method.drawn(MEMBERS, 7, r) for r in range(30)]
    for draw in draws:
        known = sum(name in MEMBERS[:with_labels] for name in draw)
        assert (known, len(draw) - known) == wanted
        assert list(draw) == sorted(set(draw))
    assert len(set(draws)) > 20
    assert draws == [method.drawn(MEMBERS[::-1], 7, r) for r in range(30)]


def test_without_known_labels_or_without_sampling_the_draw_is_the_usual_one():
    plain = quick(participation=0.1)
    assert plain.drawn(MEMBERS, 3, 2) == plain.rule.drawn(MEMBERS, 3, 2)
    named = quick(participation=0.1, labelled_sites=MEMBERS)
    assert named.drawn(MEMBERS, 3, 2) == plain.drawn(MEMBERS, 3, 2)
    assert quick(labelled_sites=MEMBERS[:2]).drawn(MEMBERS, 3, 2) == MEMBERS


def test_a_policy_is_told_what_pairs_show():
    assert "angles between the features" in quick(labels=PAIRS).shows_one_site()
    assert quick().shows_one_site() == ""
    assert "trained parameters" in quick(secure=False).shows_one_site()


def test_a_site_without_rows_to_train_on_counts_for_nothing_and_changes_nothing():
    from fedgeom.methods.iterative.effort import Effort
    from fedgeom.methods.iterative.task import Task

    for method in (quick(), quick(algorithm="scaffold")):
        learner, rng = method.build_learner(), np.random.default_rng(0)
        first = Tree(learner.start(3, 3, rng))
        task = Task(learner, np.zeros((2, 3)), np.zeros(2, np.int64), Effort(least=3), rng, 3, first)
        given, own = Tree(method.start(first)), Tree()
        given = given | {"model": 1.0 + first}
        sent = method.train(task, given, own)
        assert method.weight(task) == 0.0
        assert not own
        moved = sent["model"].flat() if method.sends_changes else (sent["model"] - given["model"]).flat()
        assert not moved.any()
        enough = Task(learner, np.zeros((3, 3)), np.zeros(3, np.int64), Effort(least=3), rng, 3, first)
        assert method.weight(enough) == 1.0
        assert quick(weights="rows").weight(enough) == 3.0

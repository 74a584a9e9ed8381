"""`XCLPTraining` as a whole: it helps where labels are few, resumes, and says what cannot be."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.testing import Check, parametrize_with_checks
from tests.methods.iterative.test_resume import Killed, killing
from tests.methods.xclp_training.making import MLP, PAIRS, quick, right, sites, without_labels


@pytest.mark.full
@parametrize_with_checks({"few labels": lambda: quick(n_rounds=2, epochs=1)}, lambda: sites(labelled=0.5))
def test_it_keeps_the_contract_where_few_rows_have_labels(check: Check) -> None:
    check()


@pytest.mark.full
@pytest.mark.parametrize(
    "settings", [{}, {"algorithm": "scaffold"}, {"participation": 0.5, "min_sites": 3, "n_rounds": 4}], ids=str
)
def test_killed_after_any_round_and_resumed_it_is_the_same_model(settings, tmp_path):
    data, method = sites(6 if "participation" in settings else 4), quick(**settings)
    clean = fedgeom.run(method, data, seed=4)
    answers = len(clean.ledger)
    for at in sorted({1, answers // 2, answers - 2, *range(5, answers, 23)}):
        folder = tmp_path / str(at)
        with pytest.raises(Killed):
            fedgeom.run(method, data, seed=4, record=folder, resumable=True, **killing(at, "before"))
        run = fedgeom.run(method, data, seed=4, record=folder, resume=True)
        assert run.model.to_bytes() == clean.model.to_bytes(), at
        assert len(run.ledger) == answers


def test_killed_over_pairs_with_a_hidden_projection_it_goes_on(tmp_path):
    pytest.importorskip("seal", reason="needs seal-python")
    data, method = sites(3, rows=10), quick(labels=PAIRS | {"hidden_projection": True})
    answers = len(fedgeom.run(method, data).ledger)
    for at in (answers // 2, answers - 4):
        folder = tmp_path / str(at)
        with pytest.raises(Killed):
            fedgeom.run(method, data, record=folder, resumable=True, **killing(at, "before"))
        assert not fedgeom.run(method, data, record=folder, resume=True).lost


def test_rows_without_labels_help_where_sites_lack_classes():
    """Each site has labels of one class only, and few: the others' labels reach its rows over the joint graph."""
    data = sites(4, rows=60, labelled=1.0, noise=0.7, seed=5)
    rng, thinned = np.random.default_rng(0), []
    for at, site in enumerate(data):
        keep = rng.permutation(np.flatnonzero(site.y == at % 3))[:2]
        thinned.append(without_labels(site, np.setdiff1d(np.arange(len(site)), keep)))
    found = {
        labels: right(fedgeom.run(quick(n_rounds=6, warmup_rounds=2, labels=labels), thinned, seed=1).model, data)
        for labels in ("none", "site")
    }
    joint = {"name": "xclp", "n_anchors": 12, "steps": 3, "min_cell": 3}
    spread = right(fedgeom.run(quick(n_rounds=6, warmup_rounds=2, labels=joint), thinned, seed=1).model, data)
    assert spread > max(found.values()) + 0.02


def test_a_network_trains_on_it():
    pytest.importorskip("torch", reason="torch is not installed")
    data = sites(rows=40)
    run = fedgeom.run(quick(network=MLP, n_rounds=8, warmup_rounds=3, learning_rate=0.3, epochs=4), data, seed=1)
    assert right(run.model, data) > 0.85
    assert run.metrics["labels spread"][0]["anchors"] > 1


def test_what_cannot_be_is_said_before_anything_is_sent():
    data = sites()
    with pytest.raises(InputError, match="a classifier needs rows of two classes"):
        fedgeom.run(quick(), [without_labels(site) for site in data])
    narrow = SiteData("narrow", data[0].X[:, :3], data[0].y)
    with pytest.raises(InputError, match="columns"):
        fedgeom.run(quick(), [*data, narrow])
    with pytest.raises(InputError, match="secure sums follow from n_rounds=500"):
        quick(n_rounds=500)
    assert quick(n_rounds=500, relabel_every=3).relabel_every == 3


def test_sites_that_are_said_to_have_labels_and_have_none_are_warned_of():
    data = sites()
    data[0] = without_labels(data[0])
    method = quick(labelled_sites=(data[0].name, data[1].name, "nobody"))
    (found,) = method.advise(data, fedgeom.Policy())
    assert found.level == "warning"
    assert f"labelled_sites names {data[0].name!r}, 'nobody'" in found.what
    assert not quick(labelled_sites=(data[1].name,)).advise(data, fedgeom.Policy())


def test_the_published_setting():
    method = fedgeom.XCLPTraining.published()
    assert method.xclp is not None
    assert (method.xclp.graph, method.xclp.hash_bits) == ("pairs", 4096)
    assert (method.xclp.setting.k, method.xclp.setting.alpha) == (10, 0.99)
    assert (method.weights, method.epochs, method.participation, method.half_labelled) == ("sites", 5, 0.05, True)
